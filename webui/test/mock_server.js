// A server with the API of the page, without a model: for developing the page and for states that a
// healthy server does not show. `node test/mock_server.js [port]` runs it; tests call startMock().
//
// The last message of the user chooses the answer (see ANSWERS); other options are fields of `mock`, which a
// test may change while it runs: {loading, key, status, breakAfter, delayMs, models}.

import {createServer} from 'node:http';
import {readFile} from 'node:fs/promises';
import {fileURLToPath} from 'node:url';

const MAX_BODY_BYTES = 32 << 20;
const BEFORE_BREAK_MS = 250;
const DIST = fileURLToPath(new URL('../dist/', import.meta.url));

const CODE =
  'Here is a function:\n\n```python\ndef add(a: int, b: int) -> int:\n    """Return the sum."""\n' +
  '    return a + b\n```\n\nIt takes two numbers and returns their sum.';
const MATH =
  'Euler found $e^{i\\pi} + 1 = 0$. The roots are\n\n$$x = \\frac{-b \\pm \\sqrt{b^2 - 4ac}}{2a}$$\n\n' +
  'and \\(a \\ne 0\\). It costs $5 and $6.';
const HOSTILE =
  '<img src=x onerror="window.hacked=1"> <script>window.hacked=1</script>\n\n' +
  '[click](javascript:window.hacked=1) and [data](data:text/html,<script>window.hacked=1</script>)\n\n' +
  '![pixel](http://tracker.invalid/pixel.png)\n\n<iframe src="http://evil.invalid"></iframe>\n\n' +
  '```html\n<script>window.hacked=1</script>\n```\n\n$\\href{javascript:window.hacked=1}{x}$ ' +
  '<a href="http://evil.invalid" onclick="window.hacked=1">raw</a>';
const MARKDOWN =
  '# Title\n\nA paragraph with **bold**, *italic*, `code` and a [link](https://example.org).\n\n' +
  '- one\n- two\n  - nested\n\n1. first\n2. second\n\n> A quotation.\n\n' +
  '| name | value |\n|---|---|\n| a | 1 |\n';

const ROWS = Array.from({length: 20_000}, (_, i) => `| r${i} | ${i * i} |\n`);
const TABLE = `| row | square |\n|---|---|\n${ROWS.join('')}`;

/** Answers by a word of the message; the first match wins. */
export const ANSWERS = [
  ['math', {content: MATH}],
  ['hostile', {content: HOSTILE}],
  ['markdown', {content: `${MARKDOWN}\n${CODE}\n\n${MATH}`}],
  [
    'weather',
    {
      reasoning: 'I should look the weather up.',
      tools: [{name: 'get_weather', arguments: '{"city": "Oslo"}'}],
    },
  ],
  ['think', {reasoning: 'First I consider the question. Then I answer it.', content: 'The answer is 42.'}],
  ['table', {content: `${TABLE}\nThat was the table.`, tokensAChunk: 2000}],
  ['long', {content: 'A sentence that fills the page with words.\n\n'.repeat(4700), tokensAChunk: 400}],
  ['slow', {content: 'word '.repeat(2000), delayMs: 20}],
  ['', {content: CODE}],
];

const tokenize = (text) => text.match(/\s*[\p{L}\p{N}_]{1,6}|\s*[^\p{L}\p{N}_\s]|\s+/gu) ?? [];

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Groups tokens as rounds do: some accepted drafts, then one of the model's own. */
function* rounds(text) {
  const tokens = tokenize(text);
  const accepted = [3, 0, 2, 4, 1, 3, 2];
  for (let at = 0, round = 0; at < tokens.length; round += 1) {
    const kept = Math.min(accepted[round % accepted.length], tokens.length - at - 1);
    yield tokens.slice(at, at + kept + 1).map((one, index) => ({text: one, accepted: index < kept}));
    at += kept + 1;
  }
}

class Stream {
  constructor(response, model) {
    this.response = response;
    this.model = model;
    this.report = {
      rounds: 0,
      drafted: 0,
      accepted: 0,
      byPosition: [0, 0, 0, 0],
      draftedAt: [0, 0, 0, 0],
      tokens: 0,
    };
  }

  write(object) {
    this.response.write(`data: ${JSON.stringify(object)}\n\n`);
  }

  chunk(delta, more = {}) {
    const {finish_reason = null, ...top} = more;
    const {speculation_tokens, ...rest} = top;
    const choice = {index: 0, delta, finish_reason, ...(speculation_tokens ? {speculation_tokens} : {})};
    this.write({
      id: 'chatcmpl-mock',
      object: 'chat.completion.chunk',
      created: 1,
      model: this.model,
      choices: [choice],
      ...rest,
    });
  }

  count(tokens) {
    const {report} = this;
    const kept = tokens.filter((one) => one.accepted).length;
    report.rounds += 1;
    report.tokens += tokens.length;
    report.drafted += 4;
    report.accepted += kept;
    for (let at = 0; at < 4; at += 1) {
      report.draftedAt[at] += 1;
      if (at < kept) report.byPosition[at] += 1;
    }
  }

  async text(key, text, {delayMs, tokensAChunk = 1, breakAfter}) {
    let gathered = [];
    for (const round of rounds(text)) {
      this.count(round);
      gathered.push(...round);
      if (gathered.length < tokensAChunk) continue;
      if (this.response.destroyed) return false;
      this.chunk({[key]: gathered.map((one) => one.text).join('')}, {speculation_tokens: gathered});
      gathered = [];
      if (breakAfter !== undefined && this.report.tokens >= breakAfter) return false;
      await sleep(delayMs);
    }
    if (gathered.length > 0) {
      this.chunk({[key]: gathered.map((one) => one.text).join('')}, {speculation_tokens: gathered});
    }
    return true;
  }

  end(finish, off) {
    const {rounds: count, drafted, accepted, byPosition, draftedAt, tokens} = this.report;
    const speculation = off
      ? {
          engaged: false,
          reason: 'the request turned it off',
          drafter: 'none',
          rounds: tokens,
          drafted: 0,
          accepted: 0,
          accepted_by_position: [],
          drafted_by_position: [],
          tokens_per_round: 1,
        }
      : {
          engaged: true,
          reason: '',
          drafter: 'mtp+lookup',
          rounds: count,
          drafted,
          accepted,
          accepted_by_position: byPosition,
          drafted_by_position: draftedAt,
          tokens_per_round: count > 0 ? tokens / count : 0,
        };
    const timings = {
      prompt_n: 24,
      prompt_ms: 18,
      predicted_n: tokens,
      predicted_ms: tokens * 5,
      predicted_per_second: 200,
      cached_n: 8,
    };
    this.chunk({}, {finish_reason: finish});
    this.write({
      id: 'chatcmpl-mock',
      object: 'chat.completion.chunk',
      created: 1,
      model: this.model,
      choices: [],
      usage: {prompt_tokens: 24, completion_tokens: tokens, total_tokens: 24 + tokens},
      speculation,
      timings,
    });
    this.response.end('data: [DONE]\n\n');
  }
}

function answerTo(body) {
  const last = body.messages[body.messages.length - 1];
  if (last.role === 'tool') return {content: `The tool said: ${last.content}`};
  if (Array.isArray(last.content))
    return {content: `Parts: ${last.content.map(({type}) => type).join(', ')}`};
  const asked = String(last.content).toLowerCase();
  return ANSWERS.find(([word]) => asked.includes(word))[1];
}

async function chat(mock, body, response) {
  const answer = answerTo(body);
  const options = {delayMs: mock.delayMs, breakAfter: mock.breakAfter, ...answer};
  response.writeHead(200, {'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store'});
  const stream = new Stream(response, body.model);
  stream.chunk({role: 'assistant', content: ''});
  const thinks = body.chat_template_kwargs?.enable_thinking !== false;
  if (answer.reasoning && thinks) await stream.text('reasoning_content', answer.reasoning, options);
  const whole = answer.content ? await stream.text('content', answer.content, options) : true;
  if (!whole) {
    if (mock.breakWith) {
      stream.write({error: {message: mock.breakWith}});
      return response.end();
    }
    // A browser drops unread data when the stream ends in an error.
    await sleep(BEFORE_BREAK_MS);
    return response.socket?.end(); // the written data arrives, the end of the answer does not
  }
  for (const [index, tool] of (answer.tools ?? []).entries()) {
    stream.chunk({
      tool_calls: [
        {index, id: `call_${index}`, type: 'function', function: {name: tool.name, arguments: ''}},
      ],
    });
    for (const part of tool.arguments.match(/.{1,5}/gs)) {
      stream.chunk({tool_calls: [{index, function: {arguments: part}}]});
      await sleep(options.delayMs);
    }
  }
  stream.end(answer.tools ? 'tool_calls' : 'stop', body.speculation === 'off');
}

async function read(request) {
  const parts = [];
  let bytes = 0;
  for await (const part of request) {
    bytes += part.length;
    if (bytes > MAX_BODY_BYTES) throw new Error('the body is too large');
    parts.push(part);
  }
  return JSON.parse(Buffer.concat(parts).toString('utf8'));
}

const json = (response, status, object, headers = {}) => {
  response.writeHead(status, {'Content-Type': 'application/json', ...headers});
  response.end(JSON.stringify(object));
};

async function handle(mock, request, response) {
  const path = request.url.split('?')[0];
  if (path === '/') {
    const [page, policy] = await Promise.all([
      readFile(`${mock.dist}/index.html`),
      readFile(`${mock.dist}/csp.txt`, 'utf8'),
    ]);
    response.writeHead(200, {'Content-Type': 'text/html; charset=utf-8', 'Content-Security-Policy': policy});
    return response.end(page);
  }
  if (path === '/health') {
    return mock.loading === null
      ? json(response, 200, {status: 'ok'})
      : json(response, 503, {status: 'loading', progress: mock.loading});
  }
  if (mock.key && request.headers.authorization !== `Bearer ${mock.key}`) {
    return json(response, 401, {
      error: {message: 'The API key is wrong or missing.', code: 'invalid_api_key'},
    });
  }
  if (path === '/props') return json(response, 200, mock.props);
  if (path === '/v1/models')
    return json(response, 200, {
      object: 'list',
      data: mock.models.map((id) => ({id, modalities: mock.modalities})),
    });
  if (path === '/v1/chat/completions') {
    const body = await read(request);
    mock.bodies.push(body);
    if (mock.status) {
      return json(
        response,
        mock.status,
        {error: {message: mock.message}},
        mock.status === 429 ? {'Retry-After': '3'} : {},
      );
    }
    return chat(mock, body, response);
  }
  return json(response, 404, {error: {message: `There is nothing at ${path}.`}});
}

/** Starts the mock on a port of its own; `bodies` gathers the requests. */
export async function startMock(options = {}) {
  const mock = {
    dist: DIST,
    loading: null,
    key: null,
    status: null,
    message: 'Said by the mock.',
    breakAfter: undefined,
    breakWith: null,
    delayMs: 4,
    models: ['qwen3.5-tiny'],
    modalities: ['text'],
    bodies: [],
    props: {
      model: 'qwen3.5-tiny',
      quantisation: 'affine 4-bit, groups of 32',
      backend: 'cpu, avx512vnni',
      drafter: 'mtp+lookup',
      context: 4096,
    },
    ...options,
  };
  const server = createServer((request, response) => {
    handle(mock, request, response).catch((error) => json(response, 500, {error: {message: String(error)}}));
  });
  await new Promise((resolve) => server.listen(options.port ?? 0, '127.0.0.1', resolve));
  mock.url = `http://127.0.0.1:${server.address().port}/`;
  mock.close = () =>
    new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    });
  return mock;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const mock = await startMock({port: Number(process.argv[2] ?? 8080), delayMs: 25});
  console.log(`The mock is at ${mock.url}`);
}
