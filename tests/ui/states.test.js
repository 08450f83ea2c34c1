// States that a healthy server does not show, and text that the small model would not write: with the mock.

import assert from 'node:assert/strict';
import {after, afterEach, before, test} from 'node:test';
import {startMock} from '../../webui/test/mock_server.js';
import {startBrowser} from './browser.js';
import {PAGE} from './server.js';
import {
  answers,
  ask,
  button,
  composer,
  finished,
  lastAnswer,
  ready,
  send,
  settings,
  visit,
  words,
} from './steps.js';

let browser;
let mock;

before(async () => {
  browser = await startBrowser();
});
after(() => browser?.close());
afterEach(() => mock?.close());

async function page(steps, options = {}, context = {}) {
  mock = await startMock({dist: PAGE, ...options});
  await visit(browser, mock.url, steps, context);
}

const notice = (on) => on.getByRole('alert');

test('while the model is loaded the page shows the progress and continues by itself', () =>
  page(
    async (on) => {
      await on.getByText('40%').waitFor();
      assert.equal(await button(on, 'Send (Enter)').isDisabled(), true);
      mock.loading = 0.9;
      await on.getByText('90%').waitFor();
      mock.loading = null;
      await ready(on);
      await on.getByRole('heading', {name: 'qwen3.5-tiny'}).waitFor();
    },
    {loading: 0.4},
  ));

test('the empty page says what runs', () =>
  page(async (on) => {
    await ready(on);
    const region = on.getByRole('region', {name: 'What runs here'});
    for (const words of ['affine 4-bit', 'avx512vnni', 'mtp+lookup', '4,096 tokens']) {
      await region.getByText(words).waitFor();
    }
  }));

test('a model without a tower hides pictures, a file dropped there does not open', () =>
  page(async (on) => {
    await ready(on);
    assert.equal(await button(on, 'Attach a picture').count(), 0);
    const kept = await on.evaluate(() => {
      const transfer = new DataTransfer();
      transfer.items.add(new File(['x'], 'a.png', {type: 'image/png'}));
      const event = new DragEvent('drop', {bubbles: true, cancelable: true, dataTransfer: transfer});
      document.querySelector('main').dispatchEvent(event);
      return event.defaultPrevented;
    });
    assert.equal(kept, true);
    assert.equal(await on.getByRole('img').count(), 0);
  }));

test('a file that is not an image is reported and not attached', () =>
  page(
    async (on) => {
      await ready(on);
      await button(on, 'Attach a picture').waitFor();
      await on
        .locator('input[type=file]')
        .setInputFiles({name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('words')});
      await notice(on).getByText('notes.txt is not a picture').waitFor();
      assert.equal(await button(on, 'Send (Enter)').isDisabled(), true);
    },
    {modalities: ['text', 'image']},
  ));

test('a server that asks for a key gets one, a wrong one is asked for again', () =>
  page(
    async (on) => {
      await notice(on).getByText('asks for an API key').waitFor();
      await on.locator('#notice-key').fill('wrong');
      await button(on, 'Use this key').click();
      await notice(on).getByText('asks for an API key').waitFor();
      await on.locator('#notice-key').fill('right');
      await button(on, 'Use this key').click();
      await ready(on);
      await ask(on, 'add');
      assert.match(await words(on), /Return the sum/);
    },
    {key: 'right'},
  ));

test('a busy server is told with when to try again, and trying again helps', () =>
  page(
    async (on) => {
      await ready(on);
      await ask(on, 'add');
      await notice(on).getByText('Try again in 3 s.').waitFor();
      mock.status = null;
      await button(on, 'Try again').click();
      await on.getByText('Return the sum').waitFor();
      assert.equal(await answers(on).count(), 1);
    },
    {status: 429},
  ));

test('a refused request shows the words of the server and leads to the settings', () =>
  page(
    async (on) => {
      await ready(on);
      await ask(on, 'add');
      await notice(on).getByText('top_k: must be at least 0').waitFor();
      await button(on, 'Open settings').click();
      await on.getByRole('dialog', {name: 'Settings'}).waitFor();
    },
    {status: 400, message: 'top_k: must be at least 0'},
  ));

test('a server that is gone is told, and what was written stays', () =>
  page(async (on) => {
    await ready(on);
    await mock.close();
    await ask(on, 'anybody there?');
    await notice(on).getByText('The server does not answer').waitFor();
    await on.getByText('anybody there?').first().waitFor();
  }));

test('an answer that breaks off keeps its words and says so', () =>
  page(
    async (on) => {
      await ready(on);
      await ask(on, 'add');
      await notice(on).getByText('The connection broke').waitFor();
      assert.match(await words(on), /Here is/);
    },
    {breakAfter: 8},
  ));

test('an error within the stream is shown with its reason', () =>
  page(
    async (on) => {
      await ready(on);
      await ask(on, 'add');
      await notice(on).getByText('the backend failed').waitFor();
    },
    {breakAfter: 8, breakWith: 'the backend failed'},
  ));

test('hostile output stays text: nothing runs, nothing is loaded, no link leads into a script', () =>
  page(async (on) => {
    await ready(on);
    await ask(on, 'hostile');
    await lastAnswer(on).getByText('onerror=').first().waitFor();
    const found = await lastAnswer(on).evaluate((element) => ({
      hacked: window.hacked,
      tags: element.querySelectorAll('script, iframe, .prose img, object, embed, .prose form, style').length,
      handlers: [...element.querySelectorAll('.prose *')].filter((one) =>
        [...one.attributes].some((attribute) => attribute.name.startsWith('on')),
      ).length,
      links: [...element.querySelectorAll('.prose [href]')].map((one) => one.getAttribute('href')),
    }));
    assert.deepEqual(found, {
      hacked: undefined,
      tags: 0,
      handlers: 0,
      links: ['http://tracker.invalid/pixel.png', ...found.links.slice(1)],
    });
    for (const link of found.links) assert.match(link, /^http:\/\//);
  }));

test('formulas are drawn as mathematics, also those in a paragraph, and money stays money', () =>
  page(async (on) => {
    await ready(on);
    await ask(on, 'math');
    assert.equal(await lastAnswer(on).locator('math').count(), 3);
    assert.equal(await lastAnswer(on).locator('math[display="block"] mfrac').count(), 1);
    await lastAnswer(on).getByText('It costs $5 and $6.').waitFor();
    const box = await lastAnswer(on).locator('mfrac').boundingBox();
    assert.ok(box.height > 30, `a display fraction is ${box.height} px high`);
  }));

test('code is coloured and copied as it is', () =>
  page(async (on) => {
    await ready(on);
    await ask(on, 'add');
    assert.ok((await lastAnswer(on).locator('.hljs-keyword').count()) >= 2);
    await button(on, 'Copy').first().click();
    await button(on, 'Copied').waitFor();
    assert.equal(
      await on.evaluate(() => navigator.clipboard.readText()),
      'def add(a: int, b: int) -> int:\n    """Return the sum."""\n    return a + b',
    );
  }));

test('of a table of 20,000 rows the beginning is drawn, and a button shows the rest', () =>
  page(async (on) => {
    await ready(on);
    await ask(on, 'table');
    const answer = lastAnswer(on);
    const rows = await answer.locator('tbody tr').count();
    assert.ok(rows > 100 && rows <= 400, `${rows} rows are drawn`);
    await answer.getByText('That was the table.').waitFor();
    assert.equal(await answer.getByText('r19999').count(), 0);
    await answer.getByRole('button', {name: /^Show the other 19,\d\d\d lines as text$/}).click();
    const text = await answer.locator('pre').innerText();
    assert.ok(text.startsWith(`| r${rows} |`), text.slice(0, 40));
    assert.ok(text.includes('| r19999 |'));
    assert.equal(await answer.getByRole('button', {name: /^Show the other/}).count(), 0);
  }));

test('an answer of 200 kB streams while the page stays usable', () =>
  page(async (on) => {
    await ready(on);
    await send(on, 'long');
    await lastAnswer(on).getByText('A sentence').first().waitFor();
    // While it streams a click is answered at once.
    await button(on, /Colours/).click();
    assert.equal(await on.evaluate(() => document.documentElement.dataset.theme), 'light');
    await finished(on);
    const length = await lastAnswer(on)
      .locator('.prose')
      .evaluate((element) => element.textContent.length);
    assert.ok(length > 190_000, `${length} characters`);
  }));

test('parallel and streamed tool calls are shown, results go back by their ids', () =>
  page(async (on) => {
    await ready(on);
    await ask(on, 'weather');
    await lastAnswer(on).getByText('get_weather').first().waitFor();
    assert.match(await lastAnswer(on).locator('pre').innerText(), /"city": "Oslo"/);
    await on.getByLabel('Result of get_weather').fill('{"degrees": 7}');
    await button(on, 'Send result').click();
    await on.getByText('The tool said: {"degrees": 7}').waitFor();
    const {messages} = mock.bodies.at(-1);
    assert.deepEqual(messages.at(-1), {
      role: 'tool',
      tool_call_id: 'call_0',
      content: '{"degrees": 7}',
    });
    assert.equal(messages.at(-2).tool_calls[0].id, 'call_0');
  }));

test('a screen reader hears when an answer begins and ends, not every token', () =>
  page(async (on) => {
    await ready(on);
    await on.evaluate(() => {
      window.heard = [];
      const live = document.querySelector('[aria-live="polite"]');
      new MutationObserver(() => window.heard.push(live.textContent)).observe(live, {
        childList: true,
        characterData: true,
        subtree: true,
      });
    });
    await ask(on, 'think');
    await on.getByText('Answer finished: 4 words.').waitFor({state: 'attached'});
    assert.deepEqual(await on.evaluate(() => window.heard), [
      'The model answers.',
      'Answer finished: 4 words.',
    ]);
  }));

test('of several models the chosen one answers, also after the page is loaded again', () =>
  page(
    async (on) => {
      const menu = on.getByLabel('Choose a model');
      const region = on.getByRole('region', {name: 'What runs here'});
      await ready(on);
      assert.equal(await menu.inputValue(), 'qwen3.5-tiny');
      await region.getByText('affine 4-bit').waitFor();
      await menu.selectOption('smollm2');
      await region.getByRole('heading', {name: 'smollm2'}).waitFor();
      assert.equal(await region.getByText('affine 4-bit').count(), 0); // a fact about the other model
      await ask(on, 'think');
      await on.reload();
      await menu.waitFor();
      assert.equal(await menu.inputValue(), 'smollm2');
      mock.models = ['qwen3.5-tiny', 'another']; // what was chosen is gone
      await on.reload();
      await menu.waitFor();
      assert.equal(await menu.inputValue(), 'qwen3.5-tiny');
      await ask(on, 'think');
      assert.deepEqual(
        mock.bodies.map((body) => body.model),
        ['smollm2', 'qwen3.5-tiny'],
      );
    },
    {models: ['qwen3.5-tiny', 'smollm2']},
  ));

test('settings that are wrong are told at their field and not saved', () =>
  page(async (on) => {
    await ready(on);
    await button(on, 'Settings').click();
    const dialog = on.getByRole('dialog', {name: 'Settings'});
    await dialog.getByLabel('Temperature').fill('9');
    await dialog.getByText('Enter a number from 0 to 2.').waitFor();
    await dialog.getByLabel('Temperature').fill('0.5');
    await dialog.getByLabel('Tools').fill('{');
    await dialog.getByText('This is not JSON').waitFor();
    assert.equal(await dialog.getByRole('button', {name: 'Save'}).isDisabled(), true);
  }));

test('what is set reaches the server', () =>
  page(async (on) => {
    await ready(on);
    await settings(on, {
      'System prompt': 'Be brief.',
      Temperature: '0.5',
      Seed: '7',
      Thinking: {choose: 'off'},
    });
    await ask(on, 'think');
    const [body] = mock.bodies;
    assert.deepEqual([body.temperature, body.seed], [0.5, 7]);
    assert.deepEqual(body.messages[0], {
      role: 'system',
      content: 'Be brief.',
    });
    assert.deepEqual(body.chat_template_kwargs, {enable_thinking: false});
    assert.equal(await lastAnswer(on).getByText('Thought').count(), 0);
  }));

test('another conversation can be read while an answer streams', () =>
  page(async (on) => {
    await ready(on);
    await ask(on, 'think first');
    await button(on, 'New conversation').click();
    await send(on, 'slow');
    await lastAnswer(on).getByText('word').first().waitFor();
    await button(on, 'think first').first().click();
    await on.getByText('The answer is 42.').waitFor();
    await on.getByText('Another conversation is being answered.').waitFor();
    await button(on, 'slow').first().click();
    await button(on, 'Stop (Escape)').click();
    await lastAnswer(on).getByText('Stopped.').waitFor();
    assert.equal(await composer(on).isEnabled(), true);
  }));
