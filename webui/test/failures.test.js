import assert from 'node:assert/strict';
import {test} from 'node:test';
import {failureOf, unreachable} from '../src/failures.js';

const body = (message) => JSON.stringify({error: {message}});

test('each status says what to do next', () => {
  assert.equal(failureOf(401, body('no key')).action, 'key');
  assert.equal(failureOf(403, '').action, 'key');
  assert.equal(failureOf(429, body('busy'), '7').next, 'Try again in 7 s.');
  assert.match(failureOf(429, body('busy')).next, /slot/);
  assert.match(failureOf(413, '').next, /shorten/);
  assert.equal(failureOf(400, body('top_k: too large')).action, 'settings');
  assert.equal(failureOf(500, '').action, 'retry');
  for (const status of [400, 401, 403, 404, 413, 418, 429, 500, 503, 507]) {
    const failure = failureOf(status, '');
    assert.ok(failure.title !== '' && failure.next !== '', `${status}`);
  }
});

test("the server's own words are shown, a foreign page is not", () => {
  assert.equal(failureOf(400, body('top_k must be at least 0')).detail, 'top_k must be at least 0');
  assert.equal(failureOf(502, '<html>Bad gateway</html>').detail, '');
  assert.equal(failureOf(502, 'bad gateway').detail, 'bad gateway');
  assert.equal(failureOf(400, '{"error":"plain"}').detail, 'plain');
});

test('a connection that breaks is told from a server that is not there', () => {
  assert.notEqual(unreachable(true).title, unreachable(false).title);
});
