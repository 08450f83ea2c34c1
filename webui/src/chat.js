// Requests and answers: settings and messages to a request body, chunks to an answer. Pure.

import {brokenStream} from './failures.js';
import {contentOf} from './pictures.js';
import {LiveFigures, appendTokens} from './speculation.js';

export const MAX_TITLE_CHARS = 48;

/** Numbers of the settings: name -> [smallest, largest, whole]. Empty means the server's default. */
export const NUMBERS = {
  temperature: [0, 2, false],
  top_p: [0, 1, false],
  top_k: [0, 1_000_000, true],
  min_p: [0, 1, false],
  max_tokens: [1, 1_000_000, true],
  seed: [0, Number.MAX_SAFE_INTEGER, true],
};

export const DEFAULTS = {
  model: '',
  system: '',
  apiKey: '',
  tools: '',
  thinking: 'default',
  speculation: true,
  theme: 'system',
  showDrafts: false,
  ...Object.fromEntries(Object.keys(NUMBERS).map((name) => [name, ''])),
};

/** The number in a field, null if it is empty, or an error sentence. */
export function readNumber(name, text) {
  const [low, high, whole] = NUMBERS[name];
  if (String(text ?? '').trim() === '') return {value: null};
  const value = Number(text);
  if (!Number.isFinite(value) || (whole && !Number.isInteger(value))) {
    return {error: whole ? 'Enter a whole number.' : 'Enter a number.'};
  }
  if (value < low || value > high) return {error: `Enter a number from ${low} to ${high}.`};
  return {value};
}

/** The tools pasted as JSON: {tools}, or {error} with a sentence. Bare functions are wrapped. */
export function readTools(text) {
  if (text.trim() === '') return {tools: []};
  let parsed;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    return {error: `This is not JSON: ${error.message}`};
  }
  const list = Array.isArray(parsed) ? parsed : [parsed];
  const tools = list.map((one) => (one?.function ? one : {type: 'function', function: one}));
  const bad = tools.findIndex((one) => typeof one.function?.name !== 'string' || one.function.name === '');
  return bad < 0 ? {tools} : {error: `Tool ${bad + 1} has no name.`};
}

function toWire(message) {
  if (message.role === 'tool') {
    return {role: 'tool', tool_call_id: message.toolCallId, content: message.content};
  }
  if (message.role !== 'assistant') return {role: message.role, content: contentOf(message)};
  const wire = {role: 'assistant', content: message.content};
  if (message.reasoning) wire.reasoning_content = message.reasoning;
  if (message.toolCalls?.length) {
    wire.tool_calls = message.toolCalls.map(({id, name, arguments: text}) => ({
      id,
      type: 'function',
      function: {name, arguments: text},
    }));
  }
  return wire;
}

/** The body of POST /v1/chat/completions. Omits empty settings. */
export function requestBody(settings, messages, model) {
  const body = {
    model,
    stream: true,
    stream_options: {include_usage: true},
    stream_speculation: true,
    speculation: settings.speculation ? 'auto' : 'off',
  };
  const system = settings.system.trim();
  // An answer that failed before its first word is not sent to the model.
  const said = messages.filter(
    (one) => one.role !== 'assistant' || one.content !== '' || one.toolCalls?.length,
  );
  body.messages = [...(system ? [{role: 'system', content: system}] : []), ...said.map(toWire)];
  for (const name of Object.keys(NUMBERS)) {
    const {value} = readNumber(name, settings[name]);
    if (typeof value === 'number') body[name] = value;
  }
  const {tools} = readTools(settings.tools);
  if (tools?.length) body.tools = tools;
  if (settings.thinking !== 'default') {
    body.chat_template_kwargs = {enable_thinking: settings.thinking === 'on'};
  }
  return body;
}

export function newAnswer() {
  return {
    content: '',
    reasoning: '',
    toolCalls: [],
    runs: [],
    reasoningRuns: [],
    live: new LiveFigures(),
    finish: null,
    usage: null,
    speculation: null,
    timings: null,
    failure: null,
  };
}

/** Adds a streamed chunk to an answer; `now` in milliseconds. Unknown fields are skipped. */
export function applyChunk(answer, chunk, now) {
  if (chunk?.error) {
    answer.failure = brokenStream(chunk.error);
    return;
  }
  if (chunk?.usage) answer.usage = chunk.usage;
  if (chunk?.speculation) answer.speculation = chunk.speculation;
  if (chunk?.timings) answer.timings = chunk.timings;
  const choice = chunk?.choices?.[0];
  if (!choice) return;
  const delta = choice.delta ?? {};
  if (typeof delta.reasoning_content === 'string') answer.reasoning += delta.reasoning_content;
  if (typeof delta.content === 'string') answer.content += delta.content;
  for (const part of delta.tool_calls ?? []) addToolCall(answer.toolCalls, part);
  if (Array.isArray(choice.speculation_tokens)) {
    answer.live.add(choice.speculation_tokens, now);
    appendTokens(delta.reasoning_content ? answer.reasoningRuns : answer.runs, choice.speculation_tokens);
  }
  if (choice.finish_reason) answer.finish = choice.finish_reason;
}

function addToolCall(calls, part) {
  const index = part.index ?? 0;
  if (!Number.isInteger(index) || index < 0 || index > 127) return;
  while (calls.length <= index) calls.push({id: '', name: '', arguments: ''});
  const call = calls[index];
  if (part.id) call.id = part.id;
  if (part.function?.name) call.name = part.function.name;
  call.arguments += part.function?.arguments ?? '';
}

/** Arguments for display: indented if they are complete JSON, else unchanged. */
export function prettyArguments(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** The title of a conversation: the first line of its first message, or the name of its first picture. */
export function titleOf(text, pictures = []) {
  const line = (text.trim() || (pictures[0]?.name ?? '')).split('\n')[0].trim();
  const letters = [...line];
  if (letters.length === 0) return 'New conversation';
  return letters.length <= MAX_TITLE_CHARS
    ? line
    : `${letters
        .slice(0, MAX_TITLE_CHARS - 1)
        .join('')
        .trim()}…`;
}

/** The announcement for screen readers at the end of an answer: one sentence, not every token. */
export function summaryOf(answer) {
  if (answer.failure) return `${answer.failure.title}. ${answer.failure.next}`;
  const words = answer.content.trim() === '' ? 0 : answer.content.trim().split(/\s+/).length;
  const calls = answer.toolCalls.length;
  if (calls > 0)
    return `The model calls ${calls === 1 ? `the tool ${answer.toolCalls[0].name}` : `${calls} tools`}.`;
  const ended = {length: ', cut at the limit of tokens', stopped: ', stopped by you'}[answer.finish] ?? '';
  return `Answer finished${ended}: ${words} ${words === 1 ? 'word' : 'words'}.`;
}
