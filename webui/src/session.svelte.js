// The page's state and the user's actions: conversations, the one streaming answer, settings.

import {DEFAULTS, applyChunk, requestBody, summaryOf, titleOf} from './chat.js';
import {AnswerView, Message, newId} from './message.svelte.js';
import {describe, health, streamChat} from './server.js';
import {loadSettings, openStore, saveSettings} from './store.js';

const SAVE_EVERY_MS = 2000;
const ASK_AGAIN_MS = 700;

export class Session {
  settings = $state(loadSettings(DEFAULTS));
  server = $state.raw({
    state: 'connecting',
    progress: 0,
    props: null,
    models: [],
    seesPictures: false,
  });
  heads = $state.raw([]);
  current = $state.raw(null); // the list entry of the open conversation, null before its first message
  messages = $state.raw([]);
  active = $state.raw(null); // {head, messages, controller} of the streaming answer
  failure = $state.raw(null); // a failure of the whole page (no server, no key)
  announcement = $state(''); // for screen readers
  persistent = $state(true);
  #store = null;

  get streamingHere() {
    return this.active !== null && this.active.head.id === this.current?.id;
  }

  /** The model of the next answer. One that was chosen from another server's list counts no more. */
  get model() {
    const {models} = this.server;
    return models.includes(this.settings.model) ? this.settings.model : (models[0] ?? '');
  }

  async start() {
    this.#store = await openStore();
    this.persistent = this.#store.persistent;
    this.heads = await this.#store.list();
    const wanted = location.hash.slice(1);
    if (this.heads.some((head) => head.id === wanted)) await this.open(wanted);
    await this.connect();
  }

  /** Waits for the server and loads its info. Ends when the server is ready or needs a key. */
  async connect() {
    for (;;) {
      const found = await health();
      if (found.state === 'ready') break;
      this.server = {...this.server, state: found.state, progress: found.progress ?? 0};
      await new Promise((resolve) => setTimeout(resolve, ASK_AGAIN_MS));
    }
    try {
      const found = await describe(this.settings.apiKey);
      this.server = {state: 'ready', progress: 1, ...found};
      this.failure = null;
    } catch (error) {
      this.server = {...this.server, state: 'refused'};
      this.failure = error.failure ?? null;
    }
  }

  saveSettings(changes) {
    const keyChanged = changes.apiKey !== undefined && changes.apiKey !== this.settings.apiKey;
    Object.assign(this.settings, changes);
    saveSettings($state.snapshot(this.settings));
    if (keyChanged || (this.failure !== null && changes.apiKey !== undefined)) return this.connect();
  }

  // ---- conversations -------------------------------------------------------------------------------------

  startNew() {
    this.current = null;
    this.messages = [];
    history.replaceState(null, '', '#');
  }

  async open(id) {
    const head = this.heads.find((one) => one.id === id);
    if (!head) return this.startNew();
    if (this.active?.head.id === id) {
      this.messages = this.active.messages;
    } else {
      const records = await this.#store.load(id);
      this.messages = (records ?? []).map((record) => Message.fromRecord(record));
    }
    this.current = head;
    history.replaceState(null, '', `#${id}`);
  }

  async rename(id, title) {
    const head = this.heads.find((one) => one.id === id);
    const wanted = titleOf(title);
    if (!head || title.trim() === '' || head.title === wanted) return;
    await this.#store.rename(this.#replaceHead({...head, title: wanted}));
  }

  async remove(id) {
    if (this.active?.head.id === id) this.stop();
    this.heads = this.heads.filter((head) => head.id !== id);
    if (this.current?.id === id) this.startNew();
    await this.#store.remove(id);
  }

  search(text) {
    return this.#store.search(text);
  }

  #replaceHead(head) {
    this.heads = [head, ...this.heads.filter((one) => one.id !== head.id)].sort(
      (a, b) => b.updated - a.updated,
    );
    if (this.current?.id === head.id) this.current = head;
    if (this.active?.head.id === head.id) this.active = {...this.active, head};
    return head;
  }

  async #save(id, messages) {
    const head = this.heads.find((one) => one.id === id);
    if (!head) return; // deleted meanwhile
    this.#replaceHead({...head, updated: Date.now()});
    const records = messages.map((message) => message.record());
    try {
      await this.#store.save({...head, updated: Date.now()}, records);
    } catch {
      this.persistent = false;
    }
  }

  // ---- asking --------------------------------------------------------------------------------------------

  /** `pictures`: [{name, url}], shown before the text. */
  async send(text, pictures = []) {
    if (this.active !== null || (text.trim() === '' && pictures.length === 0)) return;
    if (this.current === null) {
      const head = {id: newId(), title: titleOf(text, pictures), created: Date.now(), updated: Date.now()};
      this.heads = [head, ...this.heads];
      this.current = head;
      history.replaceState(null, '', `#${head.id}`);
    }
    await this.#ask([...this.messages, new Message({role: 'user', content: text, pictures})]);
  }

  /** Replaces the text of a user's message; its pictures stay. The conversation continues from there. */
  async edit(id, text) {
    const at = this.messages.findIndex((message) => message.id === id);
    if (this.active !== null || at < 0 || text.trim() === '') return;
    const {pictures} = this.messages[at];
    await this.#ask([...this.messages.slice(0, at), new Message({role: 'user', content: text, pictures})]);
  }

  /** Drops this answer and later messages, and asks again. */
  async regenerate(id) {
    const at = this.messages.findIndex((message) => message.id === id);
    if (this.active !== null || at < 0) return;
    await this.#ask(this.messages.slice(0, at));
  }

  /** Adds the results of the called tools, in their order; the model continues. */
  async sendResults(calls, results) {
    if (this.active !== null) return;
    const added = calls.map(
      (call, index) => new Message({role: 'tool', toolCallId: call.id, content: results[index] ?? ''}),
    );
    await this.#ask([...this.messages, ...added]);
  }

  stop() {
    this.active?.controller.abort();
  }

  async #ask(asked) {
    const answer = new Message({role: 'assistant', streaming: true});
    const controller = new AbortController();
    const body = requestBody(this.settings, asked, this.model);
    const messages = [...asked, answer];
    const id = this.current.id;
    this.messages = messages;
    this.active = {head: this.current, messages, controller};
    this.announcement = 'The model answers.';
    const saving = this.#save(id, asked);
    const view = new AnswerView(answer);
    let saved = performance.now();
    try {
      await streamChat(body, this.settings.apiKey, controller.signal, (chunk) => {
        const now = performance.now();
        applyChunk(view.answer, chunk, now);
        view.changed();
        if (now - saved > SAVE_EVERY_MS) {
          saved = now;
          view.draw();
          this.#save(id, messages);
        }
      });
    } catch (error) {
      if (error.name === 'AbortError') view.answer.finish = 'stopped';
      else
        view.answer.failure ??= error.failure ?? {title: 'The page failed', detail: String(error), next: ''};
    }
    view.end();
    this.active = null;
    this.announcement = summaryOf(view.answer);
    await saving;
    await this.#save(id, messages);
  }
}
