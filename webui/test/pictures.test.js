import assert from 'node:assert/strict';
import {test} from 'node:test';
import {DEFAULTS, requestBody, titleOf} from '../src/chat.js';
import {MAX_PICTURES, MAX_PICTURE_BYTES, choosePictures, contentOf} from '../src/pictures.js';

const file = (name, type = 'image/png', size = 10) => ({name, type, size});
const shown = {name: 'a.png', url: 'data:image/png;base64,AAAA'};

test('pictures are taken, other files are told by name', () => {
  const {taken, problem} = choosePictures([file('a.png'), file('notes.txt', 'text/plain'), file('b.png')], 0);
  assert.deepEqual(
    taken.map((one) => one.name),
    ['a.png', 'b.png'],
  );
  assert.match(problem, /^notes\.txt is not a picture/);
});

test('a picture has as many bytes as the server takes, at the limit and one beyond', () => {
  assert.equal(choosePictures([file('a.png', 'image/png', MAX_PICTURE_BYTES)], 0).taken.length, 1);
  const {taken, problem} = choosePictures([file('a.png', 'image/png', MAX_PICTURE_BYTES + 1)], 0);
  assert.equal(taken.length, 0);
  assert.match(problem, /20\.0 are read/);
});

test('a message has a limited number of pictures', () => {
  assert.equal(choosePictures([file('a.png')], MAX_PICTURES - 1).taken.length, 1);
  const {taken, problem} = choosePictures([file('a.png')], MAX_PICTURES);
  assert.equal(taken.length, 0);
  assert.match(problem, /next one/);
});

test('a message with pictures becomes parts, one without stays a text', () => {
  const picture = {type: 'image_url', image_url: {url: shown.url}};
  assert.equal(contentOf({content: 'hi', pictures: []}), 'hi');
  assert.equal(contentOf({content: 'hi'}), 'hi'); // a record of an older page
  assert.deepEqual(contentOf({content: 'hi', pictures: [shown]}), [picture, {type: 'text', text: 'hi'}]);
  assert.deepEqual(contentOf({content: '', pictures: [shown, shown]}), [picture, picture]);
});

test('pictures of earlier turns are sent again', () => {
  const messages = [
    {role: 'user', content: 'What is it?', pictures: [shown]},
    {role: 'assistant', content: 'A square.'},
    {role: 'user', content: 'And its colour?', pictures: []},
  ];
  const body = requestBody(DEFAULTS, messages, 'm');
  assert.equal(body.messages[0].content[0].image_url.url, shown.url);
  assert.equal(body.messages[2].content, 'And its colour?');
});

test('a conversation that begins with a picture alone has its name', () => {
  assert.equal(titleOf('', [shown]), 'a.png');
  assert.equal(titleOf('words', [shown]), 'words');
});
