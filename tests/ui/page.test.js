// The page in a browser against the real server and the shipped model.

import assert from 'node:assert/strict';
import {readFile} from 'node:fs/promises';
import {after, before, test} from 'node:test';
import {fileURLToPath} from 'node:url';
import {startBrowser} from './browser.js';
import {startServer} from './server.js';
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

const ADD = 'Write a Python function that adds two numbers.';
const GREEDY = {Temperature: '0', 'Max tokens': '80'};
const TOOLS = JSON.stringify([
  {
    type: 'function',
    function: {
      name: 'get_weather',
      description: 'Current weather for a city.',
      parameters: {
        type: 'object',
        properties: {city: {type: 'string'}},
        required: ['city'],
      },
    },
  },
]);

const PICTURE = fileURLToPath(new URL('../../assets/shapes.png', import.meta.url));

let browser;
let server;

before(async () => {
  server = await startServer();
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const page = (steps, context) =>
  visit(
    browser,
    server.url,
    async (on, ...more) => {
      await ready(on);
      await steps(on, ...more);
    },
    context,
  );

/** From here on answers go on to their limit: what would end them is ruled out on the way to the server. */
async function endless(on) {
  const asked = await fetch(`${server.url}v1/tokenize`, {
    method: 'POST',
    headers: {'Content-Type': 'application/json'},
    body: JSON.stringify({text: '<|im_end|><|endoftext|>'}),
  });
  const {tokens} = await asked.json();
  assert.equal(tokens.length, 2);
  const bias = Object.fromEntries(tokens.map((token) => [token, -100]));
  await on.route('**/v1/chat/completions', (route) =>
    route.continue({
      postData: JSON.stringify({...route.request().postDataJSON(), logit_bias: bias}),
    }),
  );
}

test('the page comes gzipped with its policy, and is not sent twice', async () => {
  const first = await fetch(server.url);
  assert.equal(first.status, 200);
  assert.equal(first.headers.get('content-encoding'), 'gzip');
  assert.match(first.headers.get('content-type'), /^text\/html/);
  assert.match(first.headers.get('content-security-policy'), /^default-src 'none'; script-src 'sha256-/);
  assert.match(await first.text(), /<div id="app">/);
  const again = await fetch(server.url, {
    headers: {'If-None-Match': first.headers.get('etag')},
  });
  assert.equal(again.status, 304);
});

test('the empty page names the model that runs', () =>
  page(async (on) => {
    const shown = await on.getByRole('region', {name: 'What runs here'}).innerText();
    assert.match(shown, /qwen3\.5-tiny/);
    assert.match(shown, /Backend\s+cpu/);
    assert.match(shown, /Context\s+[\d,]+ tokens/);
  }));

test('an answer streams and ends with its figures', () =>
  page(async (on) => {
    await endless(on);
    await settings(on, {Temperature: '1', 'Max tokens': '1000', Seed: '1'});
    await send(on, ADD);
    const lengths = new Set();
    for (let tries = 0; tries < 2000 && lengths.size < 4; tries += 1) {
      lengths.add(await lastAnswer(on).evaluate((element) => element.textContent.length));
      await on.waitForTimeout(10);
    }
    assert.ok(lengths.size >= 4, `the answer was seen at ${lengths.size} lengths`);
    await finished(on);
    const figures = await lastAnswer(on).getByRole('group', {name: /Speed/}).innerText();
    assert.match(figures, /[\d.]+ tokens\/s/);
  }));

test('speculation is seen at work: acceptance by position, tokens a round', () =>
  page(async (on) => {
    await settings(on, GREEDY);
    await ask(on, ADD);
    assert.match(await words(on), /def |return/);
    const group = lastAnswer(on).getByRole('group', {name: /Speed/});
    assert.match(await group.innerText(), /[\d.]+ a round[\s\S]*\d+% accepted/);
    const bars = await group.getByRole('img').getAttribute('aria-label');
    assert.match(bars, /^Drafts accepted by position: \d+%/);
  }));

test('accepted drafts are coloured on demand, and the words stay the same', () =>
  page(async (on) => {
    await settings(on, GREEDY);
    await ask(on, ADD);
    await button(on, 'Show drafts').click();
    assert.ok((await lastAnswer(on).locator('mark').count()) > 0);
    const coloured = await lastAnswer(on)
      .locator('.tokens')
      .evaluate((element) => element.textContent);
    await button(on, 'Show drafts').click();
    assert.equal(await lastAnswer(on).locator('mark').count(), 0);
    const code = await lastAnswer(on)
      .locator('.prose')
      .evaluate((element) => (element.querySelector('pre code') ?? element).textContent.trim());
    assert.ok(coloured.includes(code.split('\n')[0]), `${coloured} has not ${code}`);
  }));

test('without speculation the answer has the same words', () =>
  page(async (on) => {
    await settings(on, GREEDY);
    await ask(on, ADD);
    const drafted = await words(on);
    await settings(on, {Speculation: false});
    await button(on, 'Regenerate from here').click();
    await finished(on);
    assert.equal(await words(on), drafted);
    assert.match(await lastAnswer(on).innerText(), /without speculation/);
  }));

test('Escape stops an answer, what came stays', () =>
  page(async (on) => {
    await endless(on);
    await settings(on, {Temperature: '1', 'Max tokens': '3000'});
    await send(on, ADD);
    await on.waitForFunction(
      () => document.querySelector('article[aria-label="Model"] .prose')?.textContent.length > 20,
    );
    await on.keyboard.press('Escape');
    await lastAnswer(on).getByText('Stopped.').waitFor();
    const kept = await words(on);
    assert.ok(kept.length > 20);
    await on.waitForTimeout(300);
    assert.equal(await words(on), kept);
  }));

test('a message is edited and the conversation continues from there', () =>
  page(async (on) => {
    await settings(on, GREEDY);
    await ask(on, 'Hello');
    await ask(on, ADD);
    await on.getByRole('article', {name: 'You'}).first().hover();
    await button(on, 'Edit this message').first().click();
    await on
      .getByLabel('Your message', {exact: true})
      .first()
      .fill('Write a function that reverses a string.');
    await on.keyboard.press('Enter');
    await on.waitForFunction(() => document.querySelectorAll('article').length === 2);
    await finished(on);
    assert.match(await on.getByRole('article', {name: 'You'}).innerText(), /reverses a string/);
    assert.equal(await answers(on).count(), 1);
  }));

test('an answer is regenerated in its place', () =>
  page(async (on) => {
    await settings(on, GREEDY);
    await ask(on, ADD);
    const first = await words(on);
    await button(on, 'Regenerate from here').click();
    await finished(on);
    assert.equal(await answers(on).count(), 1);
    assert.equal(await words(on), first); // greedy: the same request, the same answer
  }));

test('a tool call is shown, and the answer continues with its result', () =>
  page(async (on) => {
    await settings(on, {...GREEDY, Tools: TOOLS});
    await ask(on, 'What is the weather in Oslo?');
    const card = lastAnswer(on).getByRole('form', {name: 'Tools called'});
    await card.getByText('get_weather').first().waitFor();
    assert.match(await card.locator('pre').first().innerText(), /"city"/);
    await on.getByLabel('Result of get_weather').first().fill('7 degrees, rain');
    await button(on, /Send result/).click();
    await finished(on);
    await on.getByRole('article', {name: 'Result of a tool'}).first().waitFor();
    assert.equal(await answers(on).count(), 2);
  }));

const thumbnails = (on) => on.locator('form.composer').getByRole('img', {name: 'shapes.png'});

/** Pastes the picture into the message, or drops it on the page. */
async function give(on, kind) {
  const data = await readFile(PICTURE, 'base64');
  await on.evaluate(
    ([how, base64]) => {
      const transfer = new DataTransfer();
      const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
      transfer.items.add(new File([bytes], 'shapes.png', {type: 'image/png'}));
      const common = {bubbles: true, cancelable: true};
      if (how === 'paste') {
        const event = new ClipboardEvent('paste', {...common, clipboardData: transfer});
        document.querySelector('#composer').dispatchEvent(event);
      } else {
        const event = new DragEvent('drop', {...common, dataTransfer: transfer});
        document.querySelector('main').dispatchEvent(event);
      }
    },
    [kind, data],
  );
}

test('a picture is attached, answered, kept and sent again with the next question', () =>
  page(async (on) => {
    const bodies = [];
    await on.route('**/v1/chat/completions', (route) => {
      bodies.push(route.request().postDataJSON());
      return route.continue();
    });
    await settings(on, GREEDY);
    await on.locator('input[type=file]').setInputFiles(PICTURE);
    await thumbnails(on).waitFor();
    await ask(on, 'Describe the picture.');
    assert.match(await words(on), /red circle/);
    assert.equal(await thumbnails(on).count(), 0);
    const mine = on.getByRole('article', {name: 'You'}).getByRole('img', {name: 'shapes.png'});
    assert.ok(await mine.evaluate((one) => one.naturalWidth > 0));
    await on.reload();
    await mine.waitFor();
    await ask(on, 'What colour is the circle?');
    const [first, second] = bodies;
    assert.match(first.messages[0].content[0].image_url.url, /^data:image\/png;base64,/);
    assert.deepEqual(second.messages[0], first.messages[0]);
    assert.equal(second.messages[2].content, 'What colour is the circle?');
    assert.equal(await on.getByRole('alert').count(), 0);
  }));

test('pictures are pasted and dropped, taken away, and sent without words', () =>
  page(async (on) => {
    await settings(on, {...GREEDY, 'Max tokens': '8'});
    await give(on, 'paste');
    await thumbnails(on).waitFor();
    await give(on, 'drop');
    await thumbnails(on).nth(1).waitFor();
    await button(on, 'Remove shapes.png').first().click();
    assert.equal(await thumbnails(on).count(), 1);
    await composer(on).press('Enter');
    await answers(on).first().waitFor();
    await finished(on);
    assert.equal(await on.getByRole('heading', {level: 1}).innerText(), 'shapes.png');
    assert.equal(await on.getByRole('alert').count(), 0);
  }));

test('thinking is folded and can be opened', () =>
  page(async (on) => {
    await settings(on, {...GREEDY, Thinking: {choose: 'on'}});
    await ask(on, ADD);
    const folded = lastAnswer(on).locator('details.thinking');
    assert.equal(await folded.getAttribute('open'), null);
    await folded.getByText('Thought').click();
    assert.ok((await folded.locator('.thought').innerText()).length > 0);
  }));

test('conversations and settings outlive the page', () =>
  page(async (on) => {
    await settings(on, GREEDY);
    await ask(on, ADD);
    const said = await words(on);
    await button(on, 'New conversation').click();
    await ask(on, 'Hello there');
    await on.reload();
    await on.getByRole('article', {name: 'You'}).getByText('Hello there').waitFor();
    await on
      .getByRole('navigation')
      .getByRole('button', {name: ADD.slice(0, 20)})
      .first()
      .click();
    await on.getByRole('article', {name: 'You'}).getByText(ADD).waitFor(); // the other conversation is gone
    await answers(on).first().waitFor();
    assert.equal(await words(on), said);
    await button(on, 'Settings').click();
    assert.equal(await on.getByLabel('Max tokens').inputValue(), '80');
  }));

test('conversations are renamed, found and deleted', () =>
  page(async (on) => {
    await settings(on, {...GREEDY, 'Max tokens': '8'});
    for (const text of ['alpha', 'beta', 'gamma', 'delta']) {
      await button(on, 'New conversation').click();
      await ask(on, text);
    }
    const list = on.getByRole('navigation', {name: 'Conversations'});
    await list.getByRole('button', {name: 'beta', exact: true}).hover();
    await button(on, 'Rename beta').click();
    await on.getByLabel('Name of the conversation').fill('Second');
    await on.keyboard.press('Enter');
    await list.getByRole('searchbox').fill('sec');
    await list.getByRole('button', {name: 'Second', exact: true}).waitFor();
    assert.equal(await list.getByRole('button', {name: 'alpha', exact: true}).count(), 0);
    await list.getByRole('button', {name: 'Second', exact: true}).hover();
    await button(on, 'Delete Second').click();
    await on.getByRole('dialog').getByRole('button', {name: 'Delete'}).click();
    await list.getByText('Nothing found.').waitFor();
    await on.reload();
    await list.getByRole('button', {name: 'alpha', exact: true}).waitFor();
    assert.equal(await list.getByRole('button', {name: 'Second', exact: true}).count(), 0);
  }));

test('the keyboard alone is enough', () =>
  page(async (on) => {
    await on.keyboard.press('Tab');
    assert.equal(await on.evaluate(() => document.activeElement.textContent), 'Skip to the message');
    await on.keyboard.press('Enter');
    assert.equal(await on.evaluate(() => document.activeElement.id), 'composer');
    await on.keyboard.type('first line');
    await on.keyboard.press('Shift+Enter');
    await on.keyboard.type('second line');
    assert.equal(await composer(on).inputValue(), 'first line\nsecond line');
    await on.keyboard.press('Enter');
    await answers(on).first().waitFor();
    await finished(on);
    assert.equal(await on.evaluate(() => document.activeElement.id), 'composer');
    for (let steps = 0; steps < 8; steps += 1) {
      await on.keyboard.press('Shift+Tab');
      if ((await on.evaluate(() => document.activeElement.textContent.trim())) === 'Show drafts') break;
    }
    await on.keyboard.press('Space');
    assert.ok((await lastAnswer(on).locator('.tokens').count()) > 0);
    const outline = await on.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.equal(outline, 'solid');
  }));

test('landmarks and names are there for a screen reader', () =>
  page(async (on) => {
    await settings(on, {...GREEDY, 'Max tokens': '8'});
    await ask(on, 'Hello');
    for (const role of ['navigation', 'main', 'banner']) {
      assert.equal(await on.getByRole(role).count(), 1, role);
    }
    const nameless = await on.evaluate(
      () =>
        [...document.querySelectorAll('button, input, textarea, select')].filter(
          (one) =>
            !one.closest('[aria-hidden="true"]') &&
            !one.textContent.trim() &&
            !one.getAttribute('aria-label') &&
            !one.labels?.length &&
            !one.title,
        ).length,
    );
    assert.equal(nameless, 0);
  }));

test('dark and light follow the system unless chosen, and the choice is kept', () =>
  page(
    async (on) => {
      const background = () => on.evaluate(() => getComputedStyle(document.body).backgroundColor);
      const dark = await background();
      await on.emulateMedia({colorScheme: 'light'});
      const light = await background();
      assert.notEqual(light, dark);
      await button(on, /Colours: system/).click();
      await button(on, /Colours: light/).click();
      assert.equal(await background(), dark);
      await on.reload();
      await ready(on);
      assert.equal(await background(), dark);
    },
    {colorScheme: 'dark'},
  ));

test('a narrow window fits, with a button for the list', () =>
  page(
    async (on) => {
      await settings(on, GREEDY);
      await ask(on, ADD);
      const wide = await on.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${wide} px too wide`);
      const list = on.getByRole('navigation', {name: 'Conversations'});
      assert.equal(await list.isVisible(), false);
      await button(on, 'Conversations').click();
      await list.waitFor();
      await on.keyboard.press('Escape');
      await list.waitFor({state: 'hidden'});
    },
    {viewport: {width: 360, height: 740}},
  ));

test('the policy stops foreign scripts and calls', async () => {
  const context = await browser.newContext();
  const on = await context.newPage();
  await on.goto(server.url);
  await ready(on);
  const ran = await on.evaluate(async () => {
    const script = document.createElement('script');
    script.textContent = 'window.hacked = 1';
    document.body.append(script);
    const called = await fetch('http://127.0.0.1:9/').then(
      () => 'called',
      () => 'stopped',
    );
    const picture = new Image();
    const drawn = await new Promise((resolve) => {
      picture.onload = () => resolve('loaded');
      picture.onerror = () => resolve('stopped');
      picture.src = 'http://127.0.0.1:9/x.png';
    });
    return [window.hacked ?? 'nothing', called, drawn];
  });
  assert.deepEqual(ran, ['nothing', 'stopped', 'stopped']);
  await context.close();
});

test('a server with a key asks for it and keeps it', async () => {
  const guarded = await startServer(['--api-key', 'the-right-key']);
  try {
    await visit(browser, guarded.url, async (on) => {
      await on.getByRole('alert').getByText('asks for an API key').waitFor();
      await on.locator('#notice-key').fill('the-right-key');
      await button(on, 'Use this key').click();
      await ready(on);
      await on.reload();
      await ready(on);
      await ask(on, 'Hello');
      assert.equal(await on.getByRole('alert').count(), 0);
    });
  } finally {
    await guarded.close();
  }
});
