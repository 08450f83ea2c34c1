// Draws streaming Markdown: each closed block once, the open block again at each change, open code by
// appending text. It owns the children of its element and inserts only filtered HTML.

import {BlockSplitter} from './blocks.js';
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
      block.innerHTML = renderBlock(closed[this.#drawn]);
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
  }

  #dropOpen() {
    this.#open?.remove();
    this.#open = this.#code = null;
  }

  #drawOpen() {
    const code = this.#splitter.openCode;
    if (code === null) {
      if (this.#code !== null) this.#dropOpen();
      if (this.#splitter.open.trim() === '') return this.#dropOpen();
      this.#place().innerHTML = renderBlock(this.#splitter.open);
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

  #place() {
    if (this.#open === null) {
      this.#open = document.createElement('div');
      this.#element.append(this.#open);
    }
    return this.#open;
  }
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
