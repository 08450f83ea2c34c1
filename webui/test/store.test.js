import assert from 'node:assert/strict';
import {test} from 'node:test';
import {IDBFactory} from 'fake-indexeddb';
import {loadSettings, openStore, saveSettings} from '../src/store.js';

const head = (id, updated) => ({id, title: `Title ${id}`, created: 1, updated});
const said = (content) => [{id: 'm', role: 'user', content}];

for (const [kind, factory] of [
  ['IndexedDB', () => new IDBFactory()],
  ['memory', () => undefined],
]) {
  test(`${kind}: what is saved is loaded, newest first`, async () => {
    const store = await openStore(factory());
    assert.equal(store.persistent, kind === 'IndexedDB');
    await store.save(head('a', 1), said('one'));
    await store.save(head('b', 3), said('two'));
    await store.save(head('c', 2), said('three'));
    assert.deepEqual(
      (await store.list()).map((one) => one.id),
      ['b', 'c', 'a'],
    );
    assert.deepEqual(await store.load('b'), said('two'));
    assert.equal(await store.load('nothing'), null);
  });

  test(`${kind}: saving again replaces, renaming keeps the messages`, async () => {
    const store = await openStore(factory());
    await store.save(head('a', 1), said('one'));
    await store.save(head('a', 5), said('two'));
    await store.rename({...head('a', 5), title: 'New'});
    assert.deepEqual(await store.list(), [{...head('a', 5), title: 'New'}]);
    assert.deepEqual(await store.load('a'), said('two'));
  });

  test(`${kind}: what is removed is gone, list and messages`, async () => {
    const store = await openStore(factory());
    await store.save(head('a', 1), said('one'));
    await store.remove('a');
    await store.remove('never there');
    assert.deepEqual(await store.list(), []);
    assert.equal(await store.load('a'), null);
  });

  test(`${kind}: search finds words in messages, whatever their case`, async () => {
    const store = await openStore(factory());
    await store.save(head('a', 1), said('The Quick fox'));
    await store.save(head('b', 2), said('nothing'));
    assert.deepEqual([...(await store.search('quick'))], ['a']);
    assert.deepEqual([...(await store.search('zebra'))], []);
  });

  test(`${kind}: what was saved does not change with the caller's objects`, async () => {
    const store = await openStore(factory());
    const messages = said('one');
    await store.save(head('a', 1), messages);
    messages[0].content = 'changed';
    assert.deepEqual(await store.load('a'), said('one'));
  });
}

test('conversations outlive the page', async () => {
  const factory = new IDBFactory();
  const before = await openStore(factory);
  await before.save(head('a', 1), said('kept'));
  const after = await openStore(factory);
  assert.deepEqual(await after.load('a'), said('kept'));
});

test('settings are kept; what is broken or of another type has its default', () => {
  const kept = new Map();
  const storage = {getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value)};
  const defaults = {system: '', speculation: true};
  assert.deepEqual(loadSettings(defaults, storage), defaults);
  assert.equal(saveSettings({system: 'x', speculation: false, old: 1}, storage), true);
  assert.deepEqual(loadSettings(defaults, storage), {system: 'x', speculation: false});
  kept.set('foretoken.settings', '{"system": 3, "speculation": "yes"}');
  assert.deepEqual(loadSettings(defaults, storage), defaults);
  kept.set('foretoken.settings', 'null');
  assert.deepEqual(loadSettings(defaults, storage), defaults);
  kept.set('foretoken.settings', '{');
  assert.deepEqual(loadSettings(defaults, storage), defaults);
  assert.equal(
    saveSettings(defaults, {
      setItem() {
        throw new Error('full');
      },
    }),
    false,
  );
});
