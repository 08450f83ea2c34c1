// Splits streaming Markdown into blocks, so that a closed block is rendered once: a stream costs O(new text).
// A block closes at an empty line outside code fences and display formulas, unless the next line may still
// belong to it (a list continues, an indented line).

const FENCE = /^ {0,3}(`{3,}|~{3,})(.*)$/;
const LIST_FENCE = /^ *(`{3,}|~{3,})(.*)$/;
const LIST_ITEM = /^ {0,3}([-*+]|\d{1,9}[.)])(\s|$)/;

const MAX_BLOCK_LINES = 400;
const MAX_BLOCK_CHARS = 60_000;

/**
 * Splits a block into the part that is drawn as Markdown and the rest: a table of 20,000 rows would freeze
 * the page for seconds. Code is drawn whole, because it is one text.
 */
export function cutBlock(block) {
  if (FENCE.test(block.slice(0, block.indexOf('\n') >>> 0))) return {shown: block, rest: ''};
  let end = 0;
  for (let lines = 0; lines < MAX_BLOCK_LINES && end < block.length; lines += 1) {
    const next = block.indexOf('\n', end) + 1 || block.length;
    if (next > MAX_BLOCK_CHARS) {
      if (end === 0) end = MAX_BLOCK_CHARS; // one line alone is too long
      break;
    }
    end = next;
  }
  return {shown: block.slice(0, end), rest: block.slice(end)};
}

/** push() adds text; `closed` only grows, `open` may still change. */
export class BlockSplitter {
  closed = [];
  #lines = []; // whole lines of the open block
  #tail = ''; // the unfinished last line
  #fence = null; // {mark, length} within a code fence
  #math = null; // the end mark of the open display formula
  #blank = false; // the last whole line is empty: the block may close
  #isList = false;

  get open() {
    return this.#lines.length > 0 ? `${this.#lines.join('\n')}\n${this.#tail}` : this.#tail;
  }

  /** The open block if it is an unclosed code fence: {language, code}, else null. */
  get openCode() {
    const first = this.#lines[0]?.match(FENCE);
    if (this.#fence === null || !first) return null;
    return {language: first[2].trim(), code: [...this.#lines.slice(1), this.#tail].join('\n')};
  }

  push(text) {
    const lines = (this.#tail + text).split('\n');
    this.#tail = lines.pop();
    for (const line of lines) this.#take(line);
  }

  /** The end of the text: closes the open block too. */
  end() {
    const tail = this.#tail;
    this.#tail = '';
    if (tail !== '') this.#take(tail);
    this.#close();
    this.#fence = this.#math = null;
  }

  #take(line) {
    if (this.#fence !== null || this.#math !== null) {
      this.#lines.push(line);
      if (this.#ends(line) && !this.#isList) this.#close();
      return;
    }
    if (line.trim() === '') {
      if (this.#lines.length > 0) {
        this.#blank = true;
        this.#lines.push(line);
      }
      return;
    }
    if (this.#blank && !this.#continues(line)) this.#close();
    this.#blank = false;
    if (this.#lines.length === 0) this.#isList = LIST_ITEM.test(line);
    const opened = this.#begins(line);
    if (opened && !this.#isList && this.#lines.length > 0) this.#close();
    this.#lines.push(line);
    if (opened === 'whole' && !this.#isList) this.#close();
  }

  /** Whether a fence or formula begins here: null, 'open', or 'whole' for a formula on one line. */
  #begins(line) {
    const text = this.#isList ? line.replace(LIST_ITEM, '') : line;
    const match = text.match(this.#isList ? LIST_FENCE : FENCE);
    if (match && !(match[1][0] === '`' && match[2].includes('`'))) {
      this.#fence = {mark: match[1][0], length: match[1].length};
      return 'open';
    }
    const start = text.trim();
    const end = start.startsWith('$$') ? '$$' : start.startsWith('\\[') ? '\\]' : null;
    if (end === null || (start.length > 3 && start.slice(2).includes(end) && !start.endsWith(end)))
      return null;
    if (start.length > 3 && start.endsWith(end)) return 'whole';
    this.#math = end;
    return 'open';
  }

  /** Whether the open fence or formula ends with this line. */
  #ends(line) {
    if (this.#math !== null) {
      if (!line.trimEnd().endsWith(this.#math)) return false;
      this.#math = null;
      return true;
    }
    const match = line.match(this.#isList ? LIST_FENCE : FENCE);
    const {mark, length} = this.#fence;
    if (!match || match[1][0] !== mark || match[1].length < length || match[2].trim() !== '') return false;
    this.#fence = null;
    return true;
  }

  #continues(line) {
    return /^( {2,}|\t)/.test(line) || (this.#isList && LIST_ITEM.test(line));
  }

  #close() {
    const block = this.#lines.join('\n').trimEnd();
    if (block !== '') this.closed.push(block);
    this.#lines = [];
    this.#blank = false;
    this.#isList = false;
  }
}

/** Splits a complete text at once. */
export function splitBlocks(text) {
  const splitter = new BlockSplitter();
  splitter.push(text);
  splitter.end();
  return splitter.closed;
}
