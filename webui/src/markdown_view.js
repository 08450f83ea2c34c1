// Draws streaming Markdown: each closed block once, the open block again at each change, open code by
// appending text. For a long block it renders the beginning; a button shows the rest as plain text, which
// is fast at any length. It owns the children of its element and inserts only filtered HTML.

import {BlockSplitter, cutBlock} from './blocks.js';
import {copyText} from './clipboard.js';
import {renderBlock} from './rendering.js';

const COPIED_MS = 1500;

export class MarkdownView {
  #element;
  #splitter = new BlockSplitter();
  #text = '';
  #drawn = 0; // closed blocks on the page
  #open = null; // the element of the open block
  #code = null; // the text node of open code
  #shown = ''; // the drawn beginning of the open block, if it was cut

  constructor(element) {
    this.#element = element;
    element.addEventListener('click', onCopy);
  }

  update(text, streaming) {
    if (!text.startsWith(this.#text)) this.#restart();
    if (text !== this.#text) this.#splitter.push(text.slice(this.#text.length));
    this.#text = text;
    if (!streaming) this.#splitter.end();
    const {closed} = this.#splitter;
    if (this.#drawn < closed.length) this.#dropOpen();
    for (; this.#drawn < closed.length; this.#drawn += 1) {
      const block = document.createElement('div');
      const {shown, rest} = cutBlock(closed[this.#drawn]);
      block.innerHTML = renderBlock(shown);
      if (rest !== '') block.append(restButton(rest));
      this.#element.append(block);
    }
    if (streaming) this.#drawOpen();
    else this.#dropOpen();
  }

  #restart() {
    this.#element.replaceChildren();
    this.#splitter = new BlockSplitter();
    this.#text = '';
    this.#drawn = 0;
    this.#open = this.#code = null;
    this.#shown = '';
  }

  #dropOpen() {
    this.#open?.remove();
    this.#open = this.#code = null;
    this.#shown = '';
  }

  #drawOpen() {
    const code = this.#splitter.openCode;
    if (code === null) {
      if (this.#code !== null) this.#dropOpen();
      if (this.#splitter.open.trim() === '') return this.#dropOpen();
      this.#drawCut(cutBlock(this.#splitter.open));
      return;
    }
    if (this.#code === null) {
      this.#place().innerHTML = renderBlock(`\`\`\`${code.language.replace(/[`\n]/g, '')}\n\`\`\``);
      this.#code = document.createTextNode('');
      this.#open.querySelector('code').replaceChildren(this.#code);
    }
    if (code.code.startsWith(this.#code.data)) this.#code.appendData(code.code.slice(this.#code.length));
    else this.#code.data = code.code;
  }

  /** The beginning of a block that was cut stays as it is: only its note changes. */
  #drawCut({shown, rest}) {
    if (rest === '' || shown !== this.#shown) this.#place().innerHTML = renderBlock(shown);
    if (rest === '') return;
    if (shown !== this.#shown) {
      const note = document.createElement('p');
      note.className = 'rest';
      this.#open.append(note);
    }
    this.#shown = shown;
    this.#open.lastElementChild.textContent = `${lineCount(rest)} more lines so far`;
  }

  #place() {
    if (this.#open === null) {
      this.#open = document.createElement('div');
      this.#element.append(this.#open);
    }
    return this.#open;
  }
}

const lineCount = (text) => text.trimEnd().split('\n').length.toLocaleString('en');

function restButton(rest) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'rest';
  button.textContent = `Show the other ${lineCount(rest)} lines as text`;
  button.addEventListener('click', () => {
    const text = document.createElement('pre');
    text.tabIndex = 0;
    text.textContent = rest;
    button.replaceWith(text);
    text.focus();
  });
  return button;
}

async function onCopy(event) {
  const button = event.target.closest('button.copy');
  if (button === null) return;
  const code = button.closest('.code').querySelector('code').textContent;
  button.textContent = (await copyText(code)) ? 'Copied' : 'Copying failed';
  setTimeout(() => {
    button.textContent = 'Copy';
  }, COPIED_MS);
}
