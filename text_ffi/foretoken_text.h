/* The C interface of text_ffi: Hugging Face tokenizers and minijinja behind opaque handles. Used by text/
 * only. Strings are (pointer, length) in UTF-8 without a terminator. Every function that can fail returns a
 * ft_text_code; on anything but FT_TEXT_OK `error`, if given, receives a sentence. A Rust panic stops at this
 * border (FT_TEXT_PANIC).
 * Buffers that a function fills belong to the caller, who gives them back with ft_text_bytes_free or
 * ft_text_ids_free; a buffer must be zero ({0}) before the call and stays zero on failure.
 * Handles are immutable after creation: any number of threads may use one at the same time.
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
  FT_TEXT_UNSUPPORTED = 3, /* parsed, but uses what this library does not run */
  FT_TEXT_LIMIT = 4,       /* fuel, recursion, output size or template size ran out */
  FT_TEXT_RAISED = 5,      /* the template called raise_exception, or failed on these messages */
  FT_TEXT_PANIC = 6        /* a mistake of this library */
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
  FT_TEXT_TOKEN_ADDED = 1,  /* listed in added_tokens: matched in the text before the model runs */
  FT_TEXT_TOKEN_SPECIAL = 2 /* and marked special: left out when special tokens are skipped */
};

ft_text_code ft_text_tokenizer_new(const uint8_t* json, size_t json_size, ft_text_tokenizer** out,
                                   ft_text_bytes* error);
void ft_text_tokenizer_free(ft_text_tokenizer* tokenizer);

/* One more than the highest id, added tokens included; ids below it may be unused. */
uint32_t ft_text_tokenizer_vocab_size(const ft_text_tokenizer* tokenizer);

/* The bytes that `id` stands for, and FT_TEXT_TOKEN_* flags. FT_TEXT_INVALID for an id without a token. */
ft_text_code ft_text_tokenizer_token(const ft_text_tokenizer* tokenizer, uint32_t id, ft_text_bytes* bytes,
                                     uint32_t* flags, ft_text_bytes* error);

/* The id whose content in tokenizer.json is exactly `content`; FT_TEXT_INVALID if there is none. */
ft_text_code ft_text_tokenizer_id(const ft_text_tokenizer* tokenizer, const uint8_t* content,
                                  size_t content_size, uint32_t* id);

ft_text_code ft_text_tokenizer_encode(const ft_text_tokenizer* tokenizer, const uint8_t* text,
                                      size_t text_size, int32_t add_special, ft_text_ids* ids,
                                      ft_text_bytes* error);

/* ---- chat template ---- */
typedef struct ft_text_template ft_text_template;

typedef struct {
  uint64_t fuel;            /* instructions of one rendering */
  uint64_t recursion_depth; /* macro calls inside each other */
  uint64_t template_size;   /* bytes of source */
  uint64_t output_size;     /* bytes rendered */
} ft_text_limits;

ft_text_code ft_text_template_new(const uint8_t* source, size_t source_size, const ft_text_limits* limits,
                                  ft_text_template** out, ft_text_bytes* error);
void ft_text_template_free(ft_text_template* chat_template);

/* `context` is a JSON object: the template's variables. `now_s` is what strftime_now shows: seconds since
 * 1970-01-01, already moved to the local zone. */
ft_text_code ft_text_template_render(const ft_text_template* chat_template, const uint8_t* context,
                                     size_t context_size, int64_t now_s, ft_text_bytes* text,
                                     ft_text_bytes* error);

#ifdef __cplusplus
}
#endif
