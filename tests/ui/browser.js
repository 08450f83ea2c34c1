// Debian's Chromium, driven by playwright-core: no other browser is downloaded, nothing leaves the
// machine.

import {existsSync} from 'node:fs';
import {chromium} from 'playwright-core';

const CANDIDATES = [
  process.env.FORETOKEN_CHROMIUM,
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];

/** Starts the browser; a fresh profile each time. */
export async function startBrowser() {
  const executablePath = CANDIDATES.find((path) => path && existsSync(path));
  if (!executablePath) throw new Error('there is no Chromium here; tools/setup check full installs it');
  return chromium.launch({
    executablePath,
    headless: true,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

/**
 * A page in a separate context. `seen` collects forbidden events: requests to other origins, violations
 * of the policy, errors of scripts.
 */
export async function openPage(browser, url, options = {}) {
  const context = await browser.newContext({
    permissions: ['clipboard-read', 'clipboard-write'],
    ...options,
  });
  const page = await context.newPage();
  const seen = {foreign: [], violations: [], errors: []};
  const {origin} = new URL(url);
  await context.route('**/*', (route) => {
    const asked = new URL(route.request().url());
    if (asked.protocol.startsWith('http') && asked.origin !== origin) {
      seen.foreign.push(asked.href);
      return route.abort();
    }
    return route.continue();
  });
  page.on('pageerror', (error) => seen.errors.push(String(error)));
  page.on('console', (message) => {
    if (/Content Security Policy|Content-Security-Policy/i.test(message.text()))
      seen.violations.push(message.text());
  });
  await page.goto(url);
  return {page, context, seen};
}
