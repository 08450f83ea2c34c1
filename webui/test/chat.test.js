import assert from 'node:assert/strict';
import {test} from 'node:test';
import {
  DEFAULTS,
  MAX_TITLE_CHARS,
  applyChunk,
  newAnswer,
  prettyArguments,
  readNumber,
  readTools,
  requestBody,
  summaryOf,
  titleOf,
} from '../src/chat.js';

const ask = (changes = {}, messages = [{role: 'user', content: 'hi'}]) =>
  requestBody({...DEFAULTS, ...changes}, messages, 'model-a');

function streamed(...deltas) {
  const answer = newAnswer();
  deltas.forEach((choice, at) => applyChunk(answer, {choices: [{index: 0, ...choice}]}, at * 10));
  return answer;
}

test('empty settings are left to the server', () => {
  assert.deepEqual(ask(), {
    model: 'model-a',
    stream: true,
    stream_options: {include_usage: true},
    stream_speculation: true,
    speculation: 'auto',
    messages: [{role: 'user', content: 'hi'}],
  });
});

test('settings reach the request under the names of the interface', () => {
  const body = ask({
    system: ' Be brief. ',
    temperature: '0',
    top_p: '0.9',
    top_k: '40',
    min_p: '0.05',
    seed: '7',
    max_tokens: '100',
    thinking: 'off',
    speculation: false,
  });
  assert.equal(body.model, 'model-a');
  assert.deepEqual(body.messages[0], {role: 'system', content: 'Be brief.'});
  assert.deepEqual(
    [body.temperature, body.top_p, body.top_k, body.min_p, body.seed, body.max_tokens],
    [0, 0.9, 40, 0.05, 7, 100],
  );
  assert.deepEqual(body.chat_template_kwargs, {enable_thinking: false});
  assert.equal(body.speculation, 'off');
});

test('numbers outside their range are told, at the limit and one beyond', () => {
  assert.deepEqual(readNumber('temperature', '2'), {value: 2});
  assert.match(readNumber('temperature', '2.01').error, /from 0 to 2/);
  assert.deepEqual(readNumber('max_tokens', '1'), {value: 1});
  assert.match(readNumber('max_tokens', '0').error, /from 1/);
  assert.match(readNumber('top_k', '1.5').error, /whole/);
  assert.match(readNumber('seed', 'x').error, /whole/);
  assert.deepEqual(readNumber('seed', '  '), {value: null});
});

test('tools are taken as a list or one, wrapped or bare', () => {
  const bare = {name: 'f', parameters: {}};
  const wrapped = {type: 'function', function: bare};
  for (const text of [JSON.stringify([wrapped]), JSON.stringify(wrapped), JSON.stringify(bare)]) {
    assert.deepEqual(readTools(text), {tools: [wrapped]});
  }
  assert.deepEqual(readTools(' '), {tools: []});
  assert.match(readTools('{').error, /not JSON/);
  assert.match(readTools('[{"name": "a"}, {}]').error, /Tool 2/);
  assert.match(readTools('[null]').error, /Tool 1/);
});

test('an answer with thinking and tools goes back as it came', () => {
  const {messages} = ask({}, [
    {role: 'user', content: 'q'},
    {
      role: 'assistant',
      content: '',
      reasoning: 'hm',
      toolCalls: [{id: 'c1', name: 'f', arguments: '{"a":1}'}],
    },
    {role: 'tool', toolCallId: 'c1', content: 'ok'},
  ]);
  assert.deepEqual(messages[1], {
    role: 'assistant',
    content: '',
    reasoning_content: 'hm',
    tool_calls: [{id: 'c1', type: 'function', function: {name: 'f', arguments: '{"a":1}'}}],
  });
  assert.deepEqual(messages[2], {role: 'tool', tool_call_id: 'c1', content: 'ok'});
});

test('an answer that failed before its first word is not sent', () => {
  const {messages} = ask({}, [
    {role: 'user', content: 'q'},
    {role: 'assistant', content: '', toolCalls: []},
    {role: 'user', content: 'again'},
  ]);
  assert.deepEqual(
    messages.map((one) => one.content),
    ['q', 'again'],
  );
});

test('thinking and content are gathered apart, with their tokens', () => {
  const answer = streamed(
    {delta: {role: 'assistant', content: ''}},
    {delta: {reasoning_content: 'hm'}, speculation_tokens: [{text: 'hm', accepted: false}]},
    {
      delta: {content: 'a b'},
      speculation_tokens: [
        {text: 'a', accepted: true},
        {text: ' b', accepted: false},
      ],
    },
    {delta: {content: 'c'}, speculation_tokens: [{text: 'c', accepted: false}]},
    {delta: {}, finish_reason: 'stop'},
  );
  assert.equal(answer.reasoning, 'hm');
  assert.equal(answer.content, 'a bc');
  assert.deepEqual(answer.runs, [
    ['a', true, 1],
    [' bc', false, 2],
  ]);
  assert.deepEqual(answer.reasoningRuns, [['hm', false, 1]]);
  assert.equal(answer.finish, 'stop');
});

test('arguments of parallel calls come together by index', () => {
  const call = (index, more) => ({delta: {tool_calls: [{index, ...more}]}});
  const answer = streamed(
    call(0, {id: 'a', function: {name: 'f', arguments: ''}}),
    call(0, {function: {arguments: '{"x"'}}),
    call(1, {id: 'b', function: {name: 'g', arguments: '{}'}}),
    call(0, {function: {arguments: ':1}'}}),
  );
  assert.deepEqual(answer.toolCalls, [
    {id: 'a', name: 'f', arguments: '{"x":1}'},
    {id: 'b', name: 'g', arguments: '{}'},
  ]);
  assert.equal(prettyArguments(answer.toolCalls[0].arguments), '{\n  "x": 1\n}');
  assert.equal(prettyArguments('{"x"'), '{"x"');
});

test('a call at an index out of bounds is skipped', () => {
  assert.deepEqual(streamed({delta: {tool_calls: [{index: 128, function: {name: 'f'}}]}}).toolCalls, []);
  assert.equal(streamed({delta: {tool_calls: [{index: 127, function: {name: 'f'}}]}}).toolCalls.length, 128);
});

test('the last chunk brings usage, speculation and timings', () => {
  const answer = newAnswer();
  applyChunk(
    answer,
    {choices: [], usage: {total_tokens: 3}, speculation: {engaged: true}, timings: {cached_n: 1}},
    0,
  );
  assert.deepEqual(
    [answer.usage.total_tokens, answer.speculation.engaged, answer.timings.cached_n],
    [3, true, 1],
  );
});

test('an error within the stream is told, odd chunks are survived', () => {
  const answer = newAnswer();
  for (const odd of [{}, {choices: []}, {choices: [{}]}, {choices: [{delta: {content: null}}]}, null]) {
    applyChunk(answer, odd, 0);
  }
  assert.equal(answer.failure, null);
  applyChunk(answer, {error: {message: 'the backend failed'}}, 0);
  assert.equal(answer.failure.detail, 'the backend failed');
});

test('a title is the first line, cut by characters', () => {
  assert.equal(titleOf('  Hello\nworld'), 'Hello');
  assert.equal(titleOf('x'.repeat(MAX_TITLE_CHARS)), 'x'.repeat(MAX_TITLE_CHARS));
  assert.equal([...titleOf('🎉'.repeat(MAX_TITLE_CHARS + 1))].length, MAX_TITLE_CHARS);
  assert.equal(titleOf(' \n '), 'New conversation');
});

test('the summary for screen readers is one sentence', () => {
  const answer = {...newAnswer(), content: 'two words', finish: 'stop'};
  assert.equal(summaryOf(answer), 'Answer finished: 2 words.');
  assert.equal(
    summaryOf({...answer, finish: 'length'}),
    'Answer finished, cut at the limit of tokens: 2 words.',
  );
  assert.equal(
    summaryOf({...answer, finish: 'stopped', content: 'one'}),
    'Answer finished, stopped by you: 1 word.',
  );
  assert.equal(summaryOf({...answer, toolCalls: [{name: 'f'}]}), 'The model calls the tool f.');
});
