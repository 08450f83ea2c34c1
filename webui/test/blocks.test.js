import assert from 'node:assert/strict';
import {test} from 'node:test';
import {BlockSplitter, cutBlock, splitBlocks} from '../src/blocks.js';

const MIXED =
  '# Title\n\nText\nmore text\n```py\na = 1\n\nb = 2\n```\nafter\n\n- one\n\n- two\n\n  still two\n\n' +
  '1. a\n2. b\n\n$$\nx\n\ny\n$$\n\n\\[ z \\]\ntail $$1$$ end\n\n~~~\n```\n~~~\nlast';

test('blocks close at empty lines', () => {
  assert.deepEqual(splitBlocks('a\nb\n\n\nc\n'), ['a\nb', 'c']);
});

test('a code fence is one block, whatever is in it', () => {
  assert.deepEqual(splitBlocks('text:\n```py\na\n\nb\n```\nmore'), ['text:', '```py\na\n\nb\n```', 'more']);
  assert.deepEqual(splitBlocks('````\n```\n\n````\nx'), ['````\n```\n\n````', 'x']);
});

test('a list stays together over empty lines', () => {
  assert.deepEqual(splitBlocks('- a\n\n- b\n\n  c\n\ntext'), ['- a\n\n- b\n\n  c', 'text']);
});

test('code within a list does not end the list', () => {
  const list = '1. a\n\n   ```py\n   x\n\n   y\n   ```\n\n2. b';
  assert.deepEqual(splitBlocks(`${list}\n\nend`), [list, 'end']);
});

test('display formulas are blocks of their own', () => {
  assert.deepEqual(splitBlocks('a\n$$\nx\n\ny\n$$\nb\n\\[ z \\]\nc'), [
    'a',
    '$$\nx\n\ny\n$$',
    'b',
    '\\[ z \\]',
    'c',
  ]);
});

test('a stream cut anywhere gives the same blocks, and closed blocks never change', () => {
  const whole = splitBlocks(MIXED);
  for (let at = 0; at <= MIXED.length; at += 1) {
    const splitter = new BlockSplitter();
    splitter.push(MIXED.slice(0, at));
    const early = splitter.closed.slice();
    splitter.push(MIXED.slice(at));
    splitter.end();
    assert.deepEqual(splitter.closed, whole, `cut at ${at}`);
    assert.deepEqual(splitter.closed.slice(0, early.length), early);
  }
});

test('no word is lost', () => {
  const words = (text) => text.split(/\s+/).filter((word) => word !== '');
  assert.deepEqual(words(splitBlocks(MIXED).join('\n')), words(MIXED));
});

test('open code is given as code', () => {
  const splitter = new BlockSplitter();
  splitter.push('Look:\n```rust\nfn main() {\n  le');
  assert.deepEqual(splitter.openCode, {language: 'rust', code: 'fn main() {\n  le'});
  splitter.push('t\n}\n```\n');
  assert.equal(splitter.openCode, null);
  assert.deepEqual(splitter.closed, ['Look:', '```rust\nfn main() {\n  let\n}\n```']);
});

test('a formula or fence that never closes is the last block', () => {
  assert.deepEqual(splitBlocks('$$\nx\n\ny'), ['$$\nx\n\ny']);
  assert.deepEqual(splitBlocks('```\nx\n\ny'), ['```\nx\n\ny']);
});

test('a long block is cut at a line, and nothing is lost', () => {
  const table = `| a |\n|---|\n${'| 1 |\n'.repeat(20_000)}`;
  const {shown, rest} = cutBlock(table);
  assert.equal(shown.split('\n').length - 1, 400);
  assert.equal(shown + rest, table);
  const most = 'x\n'.repeat(400);
  assert.deepEqual(cutBlock(most), {shown: most, rest: ''});
  assert.equal(cutBlock(`${most}x`).rest, 'x');
});

test('a block of few long lines is cut by its characters', () => {
  const lines = `${'x'.repeat(29_999)}\n`.repeat(3);
  assert.equal(cutBlock(lines).shown.length, 60_000);
  assert.equal(cutBlock('x'.repeat(60_000)).rest, '');
  assert.equal(cutBlock('x'.repeat(60_001)).rest, 'x');
});

test('code is drawn whole', () => {
  const code = `\`\`\`\n${'x\n'.repeat(20_000)}\`\`\``;
  assert.deepEqual(cutBlock(code), {shown: code, rest: ''});
});
