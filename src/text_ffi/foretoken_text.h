/* The C interface of text_ffi: opaque handles for Hugging Face tokenizers, minijinja, and llguidance, and
 * decoders of pictures. Used by text/ and images/ only. Strings are (pointer, length) in UTF-8 without a
 * terminator. Every function that can fail returns a ft_text_code; on anything but FT_TEXT_OK `error`, if
 * given, receives a sentence. A Rust panic stops at this boundary (FT_TEXT_PANIC).
 * The caller owns the buffers that a function fills, and frees them with ft_text_bytes_free or
 * ft_text_ids_free; a buffer must be zero ({0}) before the call and stays zero on failure.
 * Handles are immutable after creation, and any number of threads may use one at the same time; but a matcher
 * that is consumed, rolled back or asked for a mask belongs to one thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t ft_text_code;
enum {
  FT_TEXT_OK = 0,
  FT_TEXT_INVALID = 1,     /* an argument is wrong: not UTF-8, not JSON, an unknown id */
  FT_TEXT_CORRUPT = 2,     /* tokenizer.json or the template cannot be parsed */
  FT_TEXT_UNSUPPORTED = 3, /* parsed, but uses an unsupported feature */
  FT_TEXT_LIMIT = 4,       /* fuel, recursion, output size or template size ran out */
  FT_TEXT_RAISED = 5,      /* the template called raise_exception, or failed on these messages */
  FT_TEXT_PANIC = 6,       /* a bug in this library */
  FT_TEXT_EXHAUSTED = 7    /* not enough memory for the input's upper bound; nothing was started */
};

typedef struct {
  uint8_t* data;
  size_t size;     /* bytes */
  size_t capacity; /* bytes */
} ft_text_bytes;

typedef struct {
  uint32_t* data;
  size_t size;     /* ids */
  size_t capacity; /* ids */
} ft_text_ids;

void ft_text_bytes_free(ft_text_bytes* bytes);
void ft_text_ids_free(ft_text_ids* ids);

/* ---- tokenizer ---- */
typedef struct ft_text_tokenizer ft_text_tokenizer;

enum {
  FT_TEXT_TOKEN_ADDED = 1,  /* in added_tokens: matched in the text before the model runs */
  FT_TEXT_TOKEN_SPECIAL = 2 /* also marked special: left out when special tokens are skipped */
};

ft_text_code ft_text_tokenizer_new(const uint8_t* json, size_t json_size, ft_text_tokenizer** out,
                                   ft_text_bytes* error);
void ft_text_tokenizer_free(ft_text_tokenizer* tokenizer);

/* The highest id plus one, including added tokens; ids below it may be unused. */
uint32_t ft_text_tokenizer_vocab_size(const ft_text_tokenizer* tokenizer);

/* The bytes of `id`, and FT_TEXT_TOKEN_* flags. FT_TEXT_INVALID for an id without a token. */
ft_text_code ft_text_tokenizer_token(const ft_text_tokenizer* tokenizer, uint32_t id, ft_text_bytes* bytes,
                                     uint32_t* flags, ft_text_bytes* error);

/* The id whose content in tokenizer.json is exactly `content`; FT_TEXT_INVALID if there is none. */
ft_text_code ft_text_tokenizer_id(const ft_text_tokenizer* tokenizer, const uint8_t* content,
                                  size_t content_size, uint32_t* id);

ft_text_code ft_text_tokenizer_encode(const ft_text_tokenizer* tokenizer, const uint8_t* text,
                                      size_t text_size, int32_t add_special, ft_text_ids* ids,
                                      ft_text_bytes* error);

/* Max bytes of text per byte of its tokens; 0: no such bound. */
uint32_t ft_text_tokenizer_text_per_byte(const ft_text_tokenizer* tokenizer);

/* ---- chat template ---- */
typedef struct ft_text_template ft_text_template;

typedef struct {
  uint64_t fuel;            /* instructions per rendering */
  uint64_t recursion_depth; /* nested macro calls */
  uint64_t template_size;   /* bytes of source */
  uint64_t output_size;     /* bytes rendered */
  uint64_t work;            /* bytes and items touched, plus 256 per byte of variables */
  uint64_t memory;          /* bytes held at once, plus 192 per byte of variables */
} ft_text_limits;

ft_text_code ft_text_template_new(const uint8_t* source, size_t source_size, const ft_text_limits* limits,
                                  ft_text_template** out, ft_text_bytes* error);
void ft_text_template_free(ft_text_template* chat_template);

/* `context` is a JSON object of the template's variables. `now_s` is the time for strftime_now: seconds since
 * 1970-01-01, already shifted to local time. `limits`: of this rendering, at most those of the template. */
ft_text_code ft_text_template_render(const ft_text_template* chat_template, const uint8_t* context,
                                     size_t context_size, int64_t now_s, const ft_text_limits* limits,
                                     ft_text_bytes* text, ft_text_bytes* error);

/* ---- grammar ---- */
typedef struct ft_text_grammar_env ft_text_grammar_env; /* a vocabulary prepared for grammars */
typedef struct ft_text_matcher ft_text_matcher;         /* a grammar and a position in it */

typedef struct {
  uint64_t grammar_size; /* symbols in productions */
  uint64_t lexer_fuel;   /* work to build the lexer, 50,000 per ms */
  uint64_t step_fuel;    /* lexer work per mask, 14,000 per ms */
  uint64_t step_items;   /* parser items per mask, 20,000 per ms */
  uint64_t lexer_states; /* for all masks, 1-2 kB each */
} ft_text_grammar_limits;

enum {
  FT_TEXT_GRAMMAR_JSON_SCHEMA = 0,         /* an unenforceable keyword is an error */
  FT_TEXT_GRAMMAR_LENIENT_JSON_SCHEMA = 1, /* an unenforceable keyword is ignored */
  FT_TEXT_GRAMMAR_REGEX = 2,
  FT_TEXT_GRAMMAR_LARK = 3
};

/* Added tokens match no text: a grammar allows them only by name or id (<[8186]>). `eos` may follow
 * where a grammar may end. The environment keeps what it needs of the tokenizer. */
ft_text_code ft_text_grammar_env_new(const ft_text_tokenizer* tokenizer, const uint32_t* eos,
                                     size_t eos_count, const ft_text_grammar_limits* limits,
                                     ft_text_grammar_env** out, ft_text_bytes* error);
void ft_text_grammar_env_free(ft_text_grammar_env* env);

ft_text_code ft_text_matcher_new(const ft_text_grammar_env* env, int32_t kind, const uint8_t* source,
                                 size_t source_size, ft_text_matcher** out, ft_text_bytes* error);
/* A copy of the state; changes to one do not affect the other. */
ft_text_code ft_text_matcher_copy(const ft_text_matcher* matcher, ft_text_matcher** out,
                                  ft_text_bytes* error);
void ft_text_matcher_free(ft_text_matcher* matcher);

/* Bit v of word v / 32 is set if token v may come next; all others of the `word_count` words are 0. At the
 * end of the grammar: the end tokens. After an error every call returns that error. */
ft_text_code ft_text_matcher_mask(ft_text_matcher* matcher, uint32_t* words, size_t word_count,
                                  ft_text_bytes* error);
ft_text_code ft_text_matcher_consume(ft_text_matcher* matcher, const uint32_t* ids, size_t count,
                                     ft_text_bytes* error);
/* Removes the last `count` tokens. */
ft_text_code ft_text_matcher_rollback(ft_text_matcher* matcher, size_t count, ft_text_bytes* error);
/* The jump-forward tokens, which must come next; none if there is a choice. */
ft_text_code ft_text_matcher_forced(ft_text_matcher* matcher, ft_text_ids* ids, ft_text_bytes* error);
/* accepting: the grammar may end here; stopped: it must end here. */
ft_text_code ft_text_matcher_state(ft_text_matcher* matcher, int32_t* accepting, int32_t* stopped,
                                   ft_text_bytes* error);

/* ---- patterns of JSON schemas ---- */
/* found: `text` has a match. lark: the pattern as a regular expression of Lark, without its slashes. work: of
 * the automaton and the match, in its own units. FT_TEXT_INVALID: not a regular expression, look-around, too
 * large, or too much work. */
ft_text_code ft_text_pattern_search(const uint8_t* pattern, size_t pattern_size, const uint8_t* text,
                                    size_t text_size, ft_text_bytes* lark, int32_t* found, uint64_t* work,
                                    ft_text_bytes* error);

/* ---- pictures ---- */
typedef struct {
  uint64_t bytes;  /* of the file */
  uint32_t side;   /* pixels of width or height */
  uint64_t pixels; /* of the picture */
} ft_image_limits;

/* A PNG, JPEG, WebP, GIF (first frame) or BMP as rows of 8-bit RGB, upright by its EXIF orientation; alpha is
 * left out. FT_TEXT_UNSUPPORTED: another kind of file; FT_TEXT_LIMIT: beyond the limits, before memory for
 * pixels is taken; FT_TEXT_CORRUPT: cut or damaged. */
ft_text_code ft_image_decode(const uint8_t* data, size_t size, const ft_image_limits* limits,
                             ft_text_bytes* rgb, uint32_t* width, uint32_t* height, ft_text_bytes* error);
/* SHA-256 of the bytes; `digest` has room for 32. */
void ft_image_digest(const uint8_t* data, size_t size, uint8_t* digest);

#ifdef __cplusplus
}
#endif
