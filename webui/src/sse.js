// Server-sent events as streamed answers use them: `data:` lines, joined by newlines, ended by an empty line.
// Comments and other fields are skipped. Input may be split anywhere, even within a character.

export const MAX_EVENT_CHARS = 16 << 20;

/** Collects text and calls `onData(string)` once for each complete event. */
export class SseParser {
  #onData;
  #line = '';
  #data = null;
  #afterReturn = false;

  constructor(onData) {
    this.#onData = onData;
  }

  push(text) {
    // A line ends with \r\n, \n or \r; \r\n may be split.
    if (this.#afterReturn && text.startsWith('\n')) text = text.slice(1);
    if (text === '') return;
    this.#afterReturn = text.endsWith('\r');
    const lines = text.split(/\r\n|\n|\r/);
    lines[0] = this.#line + lines[0];
    this.#line = lines.pop();
    for (const line of lines) this.#take(line);
    if (this.#line.length + (this.#data?.length ?? 0) > MAX_EVENT_CHARS) {
      throw new Error('The server sent an event that is too long to be an answer.');
    }
  }

  #take(line) {
    if (line === '') {
      const data = this.#data;
      this.#data = null;
      if (data !== null) this.#onData(data);
      return;
    }
    const colon = line.indexOf(':');
    if ((colon < 0 ? line : line.slice(0, colon)) !== 'data') return;
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    this.#data = this.#data === null ? value : `${this.#data}\n${value}`;
  }
}

/** Reads a response body to its end, calling `onData` for each event. */
export async function readEvents(body, onData) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const parser = new SseParser(onData);
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    parser.push(decoder.decode(value, {stream: true}));
  }
}
