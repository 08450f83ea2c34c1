import assert from 'node:assert/strict';
import {test} from 'node:test';
import {LiveFigures, acceptanceBars, appendTokens, figures} from '../src/speculation.js';

const tokens = (marks) => [...marks].map((mark) => ({text: mark, accepted: mark === 'A'}));

test('neighbours of one kind are one run, over chunks too', () => {
  const runs = appendTokens([], tokens('AAx'));
  appendTokens(runs, tokens('xAx'));
  assert.deepEqual(runs, [
    ['AA', true, 2],
    ['xx', false, 2],
    ['A', true, 1],
    ['x', false, 1],
  ]);
});

test('a round is its accepted drafts and one token of the model', () => {
  const live = new LiveFigures();
  live.add(tokens('xAAxA'), 0);
  live.add(tokens('x'), 100); // the round continues after the chunk
  assert.deepEqual(live.snapshot(), {tokens: 6, accepted: 3, rounds: 3, rate: 10, keptByPosition: [2, 1]});
});

test('there is no rate before a second chunk', () => {
  const live = new LiveFigures();
  assert.equal(live.rate(), null);
  live.add(tokens('xx'), 50);
  assert.equal(live.rate(), null);
});

test('bars come from the report, before it from the rounds so far', () => {
  const report = {accepted_by_position: [8, 3], drafted_by_position: [10, 6], rounds: 10};
  assert.deepEqual(acceptanceBars(report, null), [
    {position: 1, kept: 8, of: 10, share: 0.8},
    {position: 2, kept: 3, of: 6, share: 0.5},
  ]);
  assert.deepEqual(acceptanceBars(null, {rounds: 4, keptByPosition: [2]}), [
    {position: 1, kept: 2, of: 4, share: 0.5},
  ]);
  assert.deepEqual(acceptanceBars(null, null), []);
  assert.deepEqual(acceptanceBars({accepted_by_position: [0], drafted_by_position: [0]}, null)[0].share, 0);
});

test('figures are those that are known', () => {
  const labels = (input) => figures(input).map((one) => `${one.value} ${one.label}`);
  assert.deepEqual(labels({report: null, timings: null, live: null}), []);
  assert.deepEqual(
    labels({
      report: {engaged: true, drafted: 8, accepted: 6, tokens_per_round: 2.5},
      live: null,
      timings: {predicted_n: 20, predicted_per_second: 123.4},
    }),
    ['123 tokens/s', '20 tokens', '2.50 a round', '75% accepted'],
  );
  const mtp = {rounds: 3, drafted: 6, accepted: 4};
  const lookup = {rounds: 1, drafted: 2, accepted: 2};
  const report = {engaged: true, drafted: 8, accepted: 6, tokens_per_round: 2.5};
  const ofReport = (by_drafter) => labels({report: {...report, by_drafter}, live: null, timings: null});
  assert.deepEqual(ofReport({mtp, lookup}).slice(2), ['4 by mtp', '2 by lookup']);
  assert.equal(ofReport({mtp}).length, 2);
  assert.deepEqual(
    labels({
      report: {engaged: false, drafted: 0, tokens_per_round: 1},
      live: null,
      timings: {predicted_n: 1, predicted_per_second: 12.34},
    }),
    ['12.3 tokens/s', '1 token'],
  );
});
