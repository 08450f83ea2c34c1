// Copies text, even if the page came over plain http from another machine, where browsers hide the clipboard.

export async function copyText(text) {
  if (navigator.clipboard !== undefined) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Refused, for example in a frame: use the old way.
    }
  }
  const field = document.createElement('textarea');
  field.value = text;
  field.className = 'unseen';
  field.setAttribute('aria-hidden', 'true');
  const focused = document.activeElement;
  document.body.append(field);
  field.select();
  const copied = document.execCommand('copy');
  field.remove();
  focused?.focus?.();
  return copied;
}
