// The `data:` of server-sent events, as streamed answers use them. Input may be split anywhere, even within a
// character.

import {createParser} from 'eventsource-parser';

export const MAX_EVENT_CHARS = 16 << 20;

/** A parser whose `feed(text)` calls `onData(string)` once for each complete event. */
export function eventParser(onData) {
  return createParser({
    onEvent: (event) => onData(event.data),
    onError(error) {
      if (error.type !== 'max-buffer-size-exceeded') return; // fields that events do not have are skipped
      throw new Error('The server sent an event that is too long to be an answer.');
    },
    maxBufferSize: MAX_EVENT_CHARS,
  });
}

/** Reads a response body to its end, calling `onData` for each event. */
export async function readEvents(body, onData) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const parser = eventParser(onData);
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    parser.feed(decoder.decode(value, {stream: true}));
  }
}
