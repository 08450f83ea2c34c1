// Pictures of a message: files that a person attaches, pastes or drops, as data URIs. Pure except for
// FileReader.

/** Kinds that the server reads, by their media type. */
export const PICTURE_TYPES = ['image/png', 'image/jpeg', 'image/webp', 'image/gif', 'image/bmp'];
/** The server's limits, shown to the person before sending. */
export const MAX_PICTURE_BYTES = 20 * 1024 * 1024;
export const MAX_PICTURES = 16;

const mebibytes = (bytes) => (bytes / 1024 / 1024).toFixed(1);

/** The files that may be added to `present` pictures: {taken}, and {problem}, a sentence or ''. */
export function choosePictures(files, present) {
  const taken = [];
  let problem = '';
  for (const file of files) {
    const name = file.name || 'This file';
    if (!PICTURE_TYPES.includes(file.type)) {
      problem = `${name} is not a picture that the model reads; attach a PNG, JPEG, WebP, GIF or BMP.`;
    } else if (file.size > MAX_PICTURE_BYTES) {
      problem = `${name} has ${mebibytes(file.size)} MiB; at most ${mebibytes(MAX_PICTURE_BYTES)} are read.`;
    } else if (present + taken.length >= MAX_PICTURES) {
      problem = `A message may have ${MAX_PICTURES} pictures; send the others in the next one.`;
    } else {
      taken.push(file);
    }
  }
  return {taken, problem};
}

/** {name, url} with the file as a data URI. */
export function readPicture(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve({name: file.name || 'picture', url: reader.result});
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

/** The content of a user's message for the server: its text, or pictures and then the text. */
export function contentOf(message) {
  if (!message.pictures?.length) return message.content;
  const parts = message.pictures.map(({url}) => ({type: 'image_url', image_url: {url}}));
  return message.content === '' ? parts : [...parts, {type: 'text', text: message.content}];
}
