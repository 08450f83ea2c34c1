import assert from 'node:assert/strict';
import {test} from 'node:test';
import {MAX_EVENT_CHARS, eventParser, readEvents} from '../src/sse.js';

function parsed(...parts) {
  const events = [];
  const parser = eventParser((data) => events.push(data));
  for (const part of parts) parser.feed(part);
  return events;
}

test('an event ends with an empty line, whatever ends lines', () => {
  for (const end of ['\n', '\r\n', '\r']) {
    assert.deepEqual(parsed(`data: one${end}${end}data: two${end}${end}:`), ['one', 'two']);
  }
});

test('a stream cut anywhere gives the same events', () => {
  const stream = ': hello\r\ndata: {"a":1}\r\n\r\nevent: x\ndata: one\ndata: two\n\nid: 3\n\ndata:[DONE]\n\n';
  const whole = parsed(stream);
  assert.deepEqual(whole, ['{"a":1}', 'one\ntwo', '[DONE]']);
  for (let at = 0; at <= stream.length; at += 1) {
    assert.deepEqual(parsed(stream.slice(0, at), stream.slice(at)), whole, `cut at ${at}`);
  }
  assert.deepEqual(parsed(...stream), whole);
});

test('an event without its empty line is not given', () => {
  assert.deepEqual(parsed('data: half\n'), []);
});

test('comments and other fields are skipped, one space after the colon is dropped', () => {
  assert.deepEqual(parsed(': keep-alive\n\ndata:  two spaces\nretry: 3\n\ndata\n\n'), [' two spaces', '']);
});

test('an event over the limit is refused', () => {
  const parser = eventParser(() => {});
  parser.feed(`data: ${'x'.repeat(MAX_EVENT_CHARS - 6)}`);
  assert.throws(() => parser.feed('x'), /too long/);
});

test('a character cut in two bytes arrives whole', async () => {
  const bytes = new TextEncoder().encode('data: Grüße 🎉\n\n');
  const body = new ReadableStream({
    start(controller) {
      for (const byte of bytes) controller.enqueue(new Uint8Array([byte]));
      controller.close();
    },
  });
  const events = [];
  await readEvents(body, (data) => events.push(data));
  assert.deepEqual(events, ['Grüße 🎉']);
});
