//! The C boundary (foretoken_text.h): pointers become slices, results become codes, panics stop here.
// The header documents the pointer contract of all functions.
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments)]

mod arguments;
mod bounded_regex;
mod bounds;
mod containers;
mod cost;
mod filters;
mod globals;
mod grammar;
mod groups;
mod image;
mod macros;
mod markup;
mod memory;
mod methods;
mod numbers;
mod operators;
mod pattern;
mod printf;
mod program;
mod python;
mod source;
mod steps;
mod template;
mod texts;
mod tokens;

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::slice;
use std::sync::Arc;

use grammar::{GrammarEnv, GrammarMatcher, Kind};
use template::{ChatTemplate, Limits};
use tokens::TextTokenizer;

/// Mirrors ft_text_code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    Ok = 0,
    Invalid = 1,
    Corrupt = 2,
    Unsupported = 3,
    Limit = 4,
    Raised = 5,
    Panic = 6,
    Exhausted = 7,
}

/// The result of fallible steps: a code for the caller, and a sentence for the reader.
#[derive(Debug)]
pub struct Failure {
    pub code: Code,
    pub message: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    pub fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }
}

#[repr(C)]
pub struct Bytes {
    data: *mut u8,
    size: usize,
    capacity: usize,
}

#[repr(C)]
pub struct Ids {
    data: *mut u32,
    size: usize,
    capacity: usize,
}

unsafe fn give_bytes(out: *mut Bytes, value: Vec<u8>) {
    if out.is_null() {
        return;
    }
    let mut value = std::mem::ManuallyDrop::new(value);
    *out = Bytes { data: value.as_mut_ptr(), size: value.len(), capacity: value.capacity() };
}

unsafe fn view<'a>(data: *const u8, size: usize) -> &'a [u8] {
    if data.is_null() || size == 0 {
        &[]
    } else {
        slice::from_raw_parts(data, size)
    }
}

unsafe fn view_text<'a>(data: *const u8, size: usize, what: &str) -> Result<&'a str, Failure> {
    std::str::from_utf8(view(data, size)).map_err(|e| {
        Failure::new(Code::Invalid, format!("{what} is not UTF-8 at byte {}", e.valid_up_to()))
    })
}

/// Runs `work` and converts a failure or panic to a code and a message.
unsafe fn guarded(error: *mut Bytes, work: impl FnOnce() -> Result<(), Failure>) -> i32 {
    // The caller gets the panic's message as an error; the default hook would print it too, and a backtrace.
    static QUIET: std::sync::Once = std::sync::Once::new();
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    memory::forget_shortage();
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return Code::Ok as i32,
        Ok(Err(failure)) => failure,
        // The C library has a different message for a failed allocation.
        Err(_) if memory::was_short() => Failure::new(Code::Exhausted, "memory ran out; try again later"),
        Err(panic) => {
            let said = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            Failure::new(Code::Panic, format!("internal error of the text library: {said}"))
        }
    };
    give_bytes(error, failure.message.into_bytes());
    failure.code as i32
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_bytes_free(bytes: *mut Bytes) {
    if let Some(bytes) = bytes.as_mut().filter(|b| !b.data.is_null()) {
        drop(Vec::from_raw_parts(bytes.data, bytes.size, bytes.capacity));
        *bytes = Bytes { data: std::ptr::null_mut(), size: 0, capacity: 0 };
    }
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_ids_free(ids: *mut Ids) {
    if let Some(ids) = ids.as_mut().filter(|i| !i.data.is_null()) {
        drop(Vec::from_raw_parts(ids.data, ids.size, ids.capacity));
        *ids = Ids { data: std::ptr::null_mut(), size: 0, capacity: 0 };
    }
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_tokenizer_new(
    json: *const u8,
    json_size: usize,
    out: *mut *mut TextTokenizer,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        let tokenizer = TextTokenizer::parse(view(json, json_size))?;
        *out = Arc::into_raw(Arc::new(tokenizer)).cast_mut(); // grammars share it and may outlive this handle
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_tokenizer_free(tokenizer: *mut TextTokenizer) {
    if !tokenizer.is_null() {
        drop(Arc::from_raw(tokenizer.cast_const()));
    }
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_tokenizer_vocab_size(tokenizer: *const TextTokenizer) -> u32 {
    (*tokenizer).vocab_size()
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_tokenizer_token(
    tokenizer: *const TextTokenizer,
    id: u32,
    bytes: *mut Bytes,
    flags: *mut u32,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        let token = (*tokenizer).token(id)?;
        *flags = u32::from(token.added) | (u32::from(token.special) << 1);
        give_bytes(bytes, token.bytes);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_tokenizer_id(
    tokenizer: *const TextTokenizer,
    content: *const u8,
    content_size: usize,
    id: *mut u32,
) -> i32 {
    guarded(std::ptr::null_mut(), || {
        let content = view_text(content, content_size, "the token")?;
        *id = (*tokenizer).id(content).ok_or_else(|| Failure::new(Code::Invalid, "no such token"))?;
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_tokenizer_encode(
    tokenizer: *const TextTokenizer,
    text: *const u8,
    text_size: usize,
    add_special: i32,
    ids: *mut Ids,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        let text = view_text(text, text_size, "the text to encode")?;
        give_ids(ids, (*tokenizer).encode(text, add_special != 0)?);
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_tokenizer_text_per_byte(tokenizer: *const TextTokenizer) -> u32 {
    (*tokenizer).text_per_byte()
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_template_new(
    source: *const u8,
    source_size: usize,
    limits: *const Limits,
    out: *mut *mut ChatTemplate,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        let source = view_text(source, source_size, "the chat template")?;
        *out = Box::into_raw(Box::new(ChatTemplate::compile(source, *limits)?));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_template_free(chat_template: *mut ChatTemplate) {
    if !chat_template.is_null() {
        drop(Box::from_raw(chat_template));
    }
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_template_render(
    chat_template: *const ChatTemplate,
    context: *const u8,
    context_size: usize,
    now_s: i64,
    limits: *const Limits,
    text: *mut Bytes,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        let rendered = (*chat_template).render(view(context, context_size), now_s, &*limits)?;
        give_bytes(text, rendered);
        Ok(())
    })
}

unsafe fn give_ids(out: *mut Ids, value: Vec<u32>) {
    let mut value = std::mem::ManuallyDrop::new(value);
    *out = Ids { data: value.as_mut_ptr(), size: value.len(), capacity: value.capacity() };
}

unsafe fn view_ids<'a>(data: *const u32, size: usize) -> &'a [u32] {
    if data.is_null() || size == 0 {
        &[]
    } else {
        slice::from_raw_parts(data, size)
    }
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_grammar_env_new(
    tokenizer: *const TextTokenizer,
    eos: *const u32,
    eos_count: usize,
    limits: *const grammar::Limits,
    out: *mut *mut GrammarEnv,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        Arc::increment_strong_count(tokenizer);
        let tokenizer = Arc::from_raw(tokenizer);
        let env = GrammarEnv::build(tokenizer, view_ids(eos, eos_count), *limits)?;
        *out = Box::into_raw(Box::new(env));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_grammar_env_free(env: *mut GrammarEnv) {
    if !env.is_null() {
        drop(Box::from_raw(env));
    }
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_matcher_new(
    env: *const GrammarEnv,
    kind: i32,
    source: *const u8,
    source_size: usize,
    out: *mut *mut GrammarMatcher,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        let source = view_text(source, source_size, "the grammar")?;
        let matcher = (*env).compile(Kind::from_number(kind)?, source)?;
        *out = Box::into_raw(Box::new(matcher));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_matcher_copy(
    matcher: *const GrammarMatcher,
    out: *mut *mut GrammarMatcher,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        *out = Box::into_raw(Box::new((*matcher).copy()));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_matcher_free(matcher: *mut GrammarMatcher) {
    if !matcher.is_null() {
        drop(Box::from_raw(matcher));
    }
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_matcher_mask(
    matcher: *mut GrammarMatcher,
    words: *mut u32,
    word_count: usize,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        let words = if word_count == 0 { &mut [] } else { slice::from_raw_parts_mut(words, word_count) };
        (*matcher).mask(words)
    })
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_matcher_consume(
    matcher: *mut GrammarMatcher,
    ids: *const u32,
    count: usize,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || (*matcher).consume(view_ids(ids, count)))
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_matcher_rollback(
    matcher: *mut GrammarMatcher,
    count: usize,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || (*matcher).rollback(count))
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_matcher_forced(
    matcher: *mut GrammarMatcher,
    ids: *mut Ids,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        give_ids(ids, (*matcher).forced());
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_matcher_state(
    matcher: *mut GrammarMatcher,
    accepting: *mut i32,
    stopped: *mut i32,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        *accepting = i32::from((*matcher).is_accepting());
        *stopped = i32::from((*matcher).is_stopped());
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn ft_text_pattern_search(
    pattern: *const u8,
    pattern_size: usize,
    text: *const u8,
    text_size: usize,
    lark: *mut Bytes,
    found: *mut i32,
    work: *mut u64,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        let pattern = view_text(pattern, pattern_size, "the pattern")?;
        let text = view_text(text, text_size, "the text")?;
        let (expression, is_match, spent) = pattern::search(pattern, text)?;
        give_bytes(lark, expression.into_bytes());
        *found = i32::from(is_match);
        *work = spent;
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn ft_image_decode(
    data: *const u8,
    size: usize,
    limits: *const image::PictureLimits,
    rgb: *mut Bytes,
    width: *mut u32,
    height: *mut u32,
    error: *mut Bytes,
) -> i32 {
    guarded(error, || {
        let picture = image::decode(view(data, size), &*limits)?;
        *width = picture.width;
        *height = picture.height;
        give_bytes(rgb, picture.rgb);
        Ok(())
    })
}

/// `digest`: 32 bytes.
#[no_mangle]
pub unsafe extern "C" fn ft_image_digest(data: *const u8, size: usize, digest: *mut u8) {
    use sha2::Digest;
    let sum = sha2::Sha256::digest(view(data, size));
    std::ptr::copy_nonoverlapping(sum.as_ptr(), digest, sum.len());
}
