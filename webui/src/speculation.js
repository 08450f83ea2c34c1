// Figures of speculation: the server's report at the end of an answer, and live figures from the tokens
// before. A round emits the accepted drafts, then one token of the model.

/** Runs of neighbouring tokens of one kind: [text, accepted, tokens]. The coloured view draws them. */
export function appendTokens(runs, tokens) {
  for (const {text, accepted} of tokens) {
    const last = runs[runs.length - 1];
    if (last && last[1] === !!accepted) {
      last[0] += text;
      last[2] += 1;
    } else {
      runs.push([text, !!accepted, 1]);
    }
  }
  return runs;
}

/** Counts tokens as they arrive: speed, and how often a round accepted its first, second, ... draft. */
export class LiveFigures {
  tokens = 0;
  accepted = 0;
  rounds = 0;
  keptByPosition = [];
  #run = 0;
  #first = null;
  #last = null;

  add(tokens, now) {
    if (tokens.length === 0) return;
    if (this.#first === null) this.#first = {now, tokens: tokens.length};
    this.#last = now;
    for (const {accepted} of tokens) {
      this.tokens += 1;
      if (accepted) {
        this.accepted += 1;
        this.keptByPosition[this.#run] = (this.keptByPosition[this.#run] ?? 0) + 1;
        this.#run += 1;
      } else {
        this.rounds += 1;
        this.#run = 0;
      }
    }
  }

  /** Tokens per second since the first chunk, or null before the second chunk. */
  rate() {
    if (this.#first === null || this.#last <= this.#first.now) return null;
    return ((this.tokens - this.#first.tokens) * 1000) / (this.#last - this.#first.now);
  }

  snapshot() {
    return {
      tokens: this.tokens,
      accepted: this.accepted,
      rounds: this.rounds,
      rate: this.rate(),
      keptByPosition: this.keptByPosition.slice(),
    };
  }
}

/** Bars of acceptance by position: [{position, share, kept, of}]; from the report, else from live figures. */
export function acceptanceBars(report, live) {
  if (report?.accepted_by_position?.length) {
    return report.accepted_by_position.map((kept, index) => {
      const of = report.drafted_by_position?.[index] ?? report.rounds ?? 0;
      return {position: index + 1, kept, of, share: of > 0 ? Math.min(1, kept / of) : 0};
    });
  }
  if (!live || live.rounds === 0) return [];
  return live.keptByPosition.map((kept, index) => ({
    position: index + 1,
    kept,
    of: live.rounds,
    share: Math.min(1, kept / live.rounds),
  }));
}

const shorten = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(1));

/** The short figures under an answer, each a {label, value, title}. */
export function figures({report, timings, live}) {
  const shown = [];
  const rate = timings?.predicted_per_second ?? live?.rate;
  if (rate) shown.push({label: 'tokens/s', value: shorten(rate), title: 'Tokens written per second'});
  const tokens = timings?.predicted_n ?? live?.tokens;
  if (tokens) {
    const cached = timings?.cached_n ? `; ${timings.cached_n} of the prompt were computed before` : '';
    shown.push({
      label: tokens === 1 ? 'token' : 'tokens',
      value: String(tokens),
      title: `Tokens written${cached}`,
    });
  }
  const perRound = report?.tokens_per_round ?? (live?.rounds ? live.tokens / live.rounds : null);
  if (perRound && (report?.engaged ?? live?.accepted > 0)) {
    shown.push({
      label: 'a round',
      value: perRound.toFixed(2),
      title: 'Mean tokens per pass of the model; 1 without speculation',
    });
  }
  if (report?.drafted > 0) {
    shown.push({
      label: 'accepted',
      value: `${Math.round((100 * report.accepted) / report.drafted)}%`,
      title: `${report.accepted} of ${report.drafted} drafted tokens were what the model wanted`,
    });
  }
  const drafters = Object.entries(report?.by_drafter ?? {});
  if (drafters.length > 1) {
    for (const [name, {drafted, accepted, rounds}] of drafters) {
      shown.push({
        label: `by ${name}`,
        value: String(accepted),
        title: `${accepted} of ${drafted} tokens that ${name} drafted in ${rounds} rounds were accepted`,
      });
    }
  }
  return shown;
}
