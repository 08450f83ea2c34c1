// Conversations in IndexedDB: the list entries in `heads`, the messages in `bodies`, both by id and
// written together. A browser without IndexedDB (some private windows) keeps them in memory.

const VERSION = 1;

const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

const finished = (transaction) =>
  new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onerror = transaction.onabort = () => reject(transaction.error);
  });

const newestFirst = (heads) => heads.sort((a, b) => b.updated - a.updated);

const contains = (body, needle) =>
  body.messages.some((message) => (message.content ?? '').toLowerCase().includes(needle));

/** Opens the store; `persistent` is true if it outlives the page. */
export async function openStore(factory = globalThis.indexedDB, name = 'foretoken') {
  try {
    return new DatabaseStore(await openDatabase(factory, name));
  } catch {
    return new MemoryStore();
  }
}

function openDatabase(factory, name) {
  const request = factory.open(name, VERSION);
  request.onupgradeneeded = () => {
    request.result.createObjectStore('heads', {keyPath: 'id'});
    request.result.createObjectStore('bodies', {keyPath: 'id'});
  };
  return done(request);
}

class DatabaseStore {
  persistent = true;
  #database;

  constructor(database) {
    this.#database = database;
    // Lets another tab with a newer version continue.
    database.onversionchange = () => database.close();
  }

  async list() {
    return newestFirst(await done(this.#database.transaction('heads').objectStore('heads').getAll()));
  }

  /** The messages of a conversation, or null. */
  async load(id) {
    const body = await done(this.#database.transaction('bodies').objectStore('bodies').get(id));
    return body?.messages ?? null;
  }

  save(head, messages) {
    const transaction = this.#database.transaction(['heads', 'bodies'], 'readwrite');
    transaction.objectStore('heads').put(head);
    transaction.objectStore('bodies').put({id: head.id, messages});
    return finished(transaction);
  }

  rename(head) {
    const transaction = this.#database.transaction('heads', 'readwrite');
    transaction.objectStore('heads').put(head);
    return finished(transaction);
  }

  remove(id) {
    const transaction = this.#database.transaction(['heads', 'bodies'], 'readwrite');
    transaction.objectStore('heads').delete(id);
    transaction.objectStore('bodies').delete(id);
    return finished(transaction);
  }

  /** Ids of the conversations with a message that contains the text. */
  search(text) {
    const needle = text.toLowerCase();
    const found = new Set();
    const cursor = this.#database.transaction('bodies').objectStore('bodies').openCursor();
    return new Promise((resolve, reject) => {
      cursor.onerror = () => reject(cursor.error);
      cursor.onsuccess = () => {
        const at = cursor.result;
        if (at === null) return resolve(found);
        if (contains(at.value, needle)) found.add(at.key);
        at.continue();
      };
    });
  }
}

class MemoryStore {
  persistent = false;
  #heads = new Map();
  #bodies = new Map();

  async list() {
    return newestFirst([...this.#heads.values()].map((head) => ({...head})));
  }

  async load(id) {
    return structuredClone(this.#bodies.get(id)?.messages ?? null);
  }

  async save(head, messages) {
    this.#heads.set(head.id, structuredClone(head));
    this.#bodies.set(head.id, structuredClone({id: head.id, messages}));
  }

  async rename(head) {
    this.#heads.set(head.id, structuredClone(head));
  }

  async remove(id) {
    this.#heads.delete(id);
    this.#bodies.delete(id);
  }

  async search(text) {
    const needle = text.toLowerCase();
    return new Set(
      [...this.#bodies.values()].filter((body) => contains(body, needle)).map((body) => body.id),
    );
  }
}

// ---- settings --------------------------------------------------------------------------------------------

const SETTINGS_KEY = 'foretoken.settings';

/** Settings stored in this browser; missing or mistyped values get defaults. */
export function loadSettings(defaults, storage = globalThis.localStorage) {
  const settings = {...defaults};
  try {
    const kept = JSON.parse(storage.getItem(SETTINGS_KEY) ?? '{}');
    for (const name of Object.keys(defaults)) {
      if (typeof kept?.[name] === typeof defaults[name]) settings[name] = kept[name];
    }
  } catch {
    // A browser without storage, or a broken entry: the defaults.
  }
  return settings;
}

/** False if the browser refuses to store them. */
export function saveSettings(settings, storage = globalThis.localStorage) {
  try {
    storage.setItem(SETTINGS_KEY, JSON.stringify(settings));
    return true;
  } catch {
    return false;
  }
}
