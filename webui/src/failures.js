// Errors for people: what happened and what to do next. `action` names the button that helps: 'key' asks for
// the API key, 'settings' opens the settings, 'retry' sends again.

/** An error response of the server. */
export class ServerFailure extends Error {
  constructor(failure) {
    super(failure.title);
    this.failure = failure;
  }
}

const BY_STATUS = {
  401: {
    title: 'The server asks for an API key',
    next: 'Enter the key that the server was started with.',
    action: 'key',
  },
  403: {title: 'The server refuses this key', next: 'Enter a key that may use this model.', action: 'key'},
  404: {
    title: 'Not found on this server',
    next: 'Reload the page; the model may have changed.',
    action: 'retry',
  },
  413: {title: 'The conversation is too long', next: 'Start a new conversation, or shorten a message.'},
  429: {title: 'The server is busy', next: 'Try again when a slot is free.', action: 'retry'},
  503: {
    title: 'The server is not ready',
    next: 'Wait until the model is loaded, then try again.',
    action: 'retry',
  },
  507: {title: 'The server has too little memory for this', next: 'Shorten the conversation or the answer.'},
};

function messageOf(body) {
  try {
    const error = JSON.parse(body).error;
    return typeof error === 'string' ? error : (error?.message ?? '');
  } catch {
    return body.length < 300 && !body.trimStart().startsWith('<') ? body.trim() : '';
  }
}

/** The failure for a status and body. `retryAfter` is the value of that header, if any. */
export function failureOf(status, body, retryAfter = null) {
  const known =
    BY_STATUS[status] ??
    (status >= 500
      ? {
          title: 'The server failed',
          next: "Try again; if it fails again, read the server's log.",
          action: 'retry',
        }
      : {title: 'The server did not accept the request', next: 'Check the settings.', action: 'settings'});
  const seconds = Number(retryAfter);
  const next =
    status === 429 && retryAfter !== null && seconds > 0 ? `Try again in ${seconds} s.` : known.next;
  return {status, title: known.title, detail: messageOf(body), next, action: known.action ?? null};
}

/** An `error` object within a stream: the answer ended early. */
export function brokenStream(error) {
  return {
    status: 0,
    title: 'The answer was interrupted',
    detail: String(error?.message ?? error ?? ''),
    next: 'Regenerate the answer.',
    action: 'retry',
  };
}

/** No response: the network or the server is gone. */
export function unreachable(started) {
  return {
    status: 0,
    action: 'retry',
    detail: '',
    title: started ? 'The connection broke during the answer' : 'The server does not answer',
    next: 'Check that foretoken serve is still running, then try again.',
  };
}
