// The steps of a person on the page, for the tests.

import assert from 'node:assert/strict';
import {openPage} from './browser.js';

export const composer = (page) => page.locator('#composer');
export const answers = (page) => page.getByRole('article', {name: 'Model'});
export const lastAnswer = (page) => answers(page).last();
export const button = (page, name) => page.getByRole('button', {name});

/** Opens the page, runs the steps, and sees that nothing forbidden happened. */
export async function visit(browser, url, steps, options = {}) {
  const {page, context, seen} = await openPage(browser, url, options);
  page.setDefaultTimeout(60_000);
  try {
    await steps(page, context);
    assert.deepEqual(seen, {foreign: [], violations: [], errors: []});
  } finally {
    await context.close();
  }
}

export async function ready(page) {
  await page.getByRole('region', {name: 'What runs here'}).getByRole('heading').waitFor();
  await page.waitForFunction(() => document.querySelector('#composer').placeholder === 'Ask something');
}

export async function send(page, text) {
  await composer(page).fill(text);
  await composer(page).press('Enter');
}

/** Waits until no answer streams. */
export async function finished(page) {
  await page.waitForFunction(
    () =>
      document.querySelectorAll('article[aria-busy="true"]').length === 0 &&
      document.querySelectorAll('article[aria-label="Model"]').length > 0 &&
      document.querySelector('button[aria-label="Send (Enter)"]') !== null,
  );
}

export async function ask(page, text) {
  const before = await answers(page).count();
  await send(page, text);
  await page.waitForFunction(
    (count) => document.querySelectorAll('article[aria-label="Model"]').length > count,
    before,
  );
  await finished(page);
}

/** The words of the last answer, without figures and buttons. */
export function words(page) {
  return lastAnswer(page).locator('.prose, .tokens').last().innerText();
}

/** Opens the settings, fills what is given by label, saves. Booleans are ticks, {choose} a choice. */
export async function settings(page, values) {
  await button(page, 'Settings').click();
  const dialog = page.getByRole('dialog', {name: 'Settings'});
  for (const [label, value] of Object.entries(values)) {
    const field = dialog.getByLabel(label).first();
    if (typeof value === 'boolean') await field.setChecked(value);
    else if (typeof value === 'object') await field.selectOption(value.choose);
    else await field.fill(value);
  }
  await dialog.getByRole('button', {name: 'Save'}).click();
  await dialog.waitFor({state: 'hidden'});
}
