// A message on the page. Large fields are replaced as a whole: an answer of 200 kB must not become a million
// signals.

import {newAnswer} from './chat.js';

const KEPT = [
  'id',
  'role',
  'content',
  'pictures',
  'reasoning',
  'toolCalls',
  'toolCallId',
  'runs',
  'reasoningRuns',
  'speculation',
  'timings',
  'usage',
  'finish',
  'failure',
];

export const newId = () => {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
};

export class Message {
  id = newId();
  role = 'user';
  toolCallId = null;
  content = $state('');
  pictures = $state.raw([]); // [{name, url}] of a user's message; url is a data URI
  reasoning = $state('');
  toolCalls = $state.raw([]);
  runs = $state.raw([]);
  reasoningRuns = $state.raw([]);
  live = $state.raw(null);
  speculation = $state.raw(null);
  timings = $state.raw(null);
  usage = $state.raw(null);
  finish = $state(null);
  failure = $state.raw(null);
  streaming = $state(false);

  constructor(fields) {
    Object.assign(this, fields);
  }

  /** The stored form: plain data. */
  record() {
    return Object.fromEntries(KEPT.map((name) => [name, this[name]]));
  }

  /** A message from the store; missing fields of older or foreign records get defaults. */
  static fromRecord(record) {
    const known = KEPT.filter((name) => record[name] !== undefined).map((name) => [name, record[name]]);
    return new Message(Object.fromEntries(known));
  }
}

/** Shows a streaming answer: chunks are gathered and drawn at most every `INTERVAL_MS`. */
export class AnswerView {
  static INTERVAL_MS = 40;
  answer = newAnswer();
  #message;
  #timer = null;
  #spent = 0; // duration of the last drawing in ms: a slow page is drawn less often

  constructor(message) {
    this.#message = message;
  }

  changed() {
    const wait = Math.max(AnswerView.INTERVAL_MS, 3 * this.#spent);
    this.#timer ??= setTimeout(() => this.draw(), Math.min(wait, 1000));
  }

  draw() {
    clearTimeout(this.#timer);
    this.#timer = null;
    const started = performance.now();
    const {answer} = this;
    const message = this.#message;
    message.content = answer.content;
    message.reasoning = answer.reasoning;
    message.toolCalls = answer.toolCalls.map((call) => ({...call}));
    message.runs = answer.runs.slice();
    message.reasoningRuns = answer.reasoningRuns.slice();
    message.live = answer.live.snapshot();
    for (const name of ['speculation', 'timings', 'usage', 'finish', 'failure']) message[name] = answer[name];
    // The page is drawn after this turn, so the next turn measures the duration.
    requestAnimationFrame(() =>
      setTimeout(() => {
        this.#spent = performance.now() - started;
      }),
    );
  }

  /** The final drawing. */
  end() {
    this.draw();
    this.#message.streaming = false;
  }
}
