//! Grammars over a tokenizer's vocabulary: llguidance with a trie of our own tokens. Schemas, expressions and
//! grammars come from clients, so their compilation and every mask are limited in work, and run where a deep
//! recursion finds room.

use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};
use llguidance::{Matcher, ParserFactory};
use serde_json::{json, Value as Json};

use crate::memory::with_reserve;
use crate::tokens::TextTokenizer;
use crate::{Code, Failure};

/// A token of more bytes would not fit llguidance's trie; the longest of any known vocabulary has 1,024
/// spaces. It is never allowed.
const MAX_TOKEN_SIZE: usize = 1000; // bytes
/// Compilation descends into schemas and grammars. Only the pages that are touched cost memory.
const STACK_SIZE: usize = 512 << 20; // bytes
/// The limits of the work bound the need; this is what the largest source within them took, doubled.
const COMPILE_NEED: usize = 256 << 20; // bytes

/// Mirrors ft_text_grammar_limits.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Limits {
    pub grammar_size: u64,
    pub lexer_fuel: u64,
    pub step_fuel: u64,
    pub step_items: u64,
    pub lexer_states: u64,
}

/// Mirrors FT_TEXT_GRAMMAR_*.
#[derive(Clone, Copy)]
pub enum Kind {
    JsonSchema,
    LenientJsonSchema,
    Regex,
    Lark,
}

impl Kind {
    pub fn from_number(kind: i32) -> Result<Kind, Failure> {
        match kind {
            0 => Ok(Kind::JsonSchema),
            1 => Ok(Kind::LenientJsonSchema),
            2 => Ok(Kind::Regex),
            3 => Ok(Kind::Lark),
            _ => Err(Failure::new(Code::Invalid, format!("there is no kind {kind} of grammar"))),
        }
    }
}

/// The vocabulary as llguidance wants it: added tokens behind a byte that no text has, so that only a grammar
/// that names them can allow them.
struct Vocabulary {
    tokenizer: Arc<TextTokenizer>,
    trie: TokTrie,
}

impl Vocabulary {
    /// Ids of `text` by the model's tokenizer if they spell it byte for byte, else longest match first.
    fn encode(&self, text: &str) -> Vec<TokenId> {
        if let Ok(ids) = self.tokenizer.encode(text, false) {
            let mut spelt = Vec::with_capacity(text.len());
            let plain = ids.iter().all(|&id| {
                spelt.extend_from_slice(self.trie.token(id));
                !self.trie.is_special_token(id)
            });
            if plain && spelt == text.as_bytes() {
                return ids;
            }
        }
        self.trie.greedy_tokenize(text.as_bytes())
    }
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie.tokenize_with_greedy_fallback(bytes, |text| self.encode(text))
    }
}

pub struct GrammarEnv {
    factory: ParserFactory,
    limits: Limits,
}

/// One grammar in one state: the compiled one, or a request's own.
pub struct GrammarMatcher {
    matcher: Matcher,
}

impl GrammarEnv {
    pub fn build(
        tokenizer: Arc<TextTokenizer>,
        eos: &[TokenId],
        limits: Limits,
    ) -> Result<GrammarEnv, Failure> {
        let vocab_size = tokenizer.vocab_size();
        if eos.is_empty() || eos.iter().any(|&id| id >= vocab_size) {
            let text = format!("the end tokens {eos:?} are not all in the vocabulary of {vocab_size}");
            return Err(Failure::new(Code::Invalid, text));
        }
        let words: Vec<Vec<u8>> = (0..vocab_size)
            .map(|id| match tokenizer.token(id) {
                Ok(token) if token.added => [&[TokTrie::SPECIAL_TOKEN_MARKER], &token.bytes[..]].concat(),
                Ok(token) if token.bytes.len() <= MAX_TOKEN_SIZE => token.bytes,
                _ => Vec::new(),
            })
            .collect();
        let trie = TokTrie::from(&TokRxInfo::new(vocab_size, eos[0]), &words).with_eos_tokens(eos);
        let vocabulary: TokEnv = Arc::new(Vocabulary { tokenizer, trie });
        let slices = llguidance::earley::SlicedBiasComputer::general_slices();
        let mut factory = ParserFactory::new(&vocabulary, InferenceCapabilities::default(), &slices)
            .map_err(|e| Failure::new(Code::Unsupported, said(&e.to_string())))?;
        factory.quiet();
        let parser = factory.limits_mut();
        parser.max_grammar_size = limits.grammar_size as usize;
        parser.initial_lexer_fuel = limits.lexer_fuel;
        parser.step_lexer_fuel = limits.step_fuel;
        parser.step_max_items = limits.step_items as usize;
        parser.max_lexer_states = limits.lexer_states as usize;
        parser.verbose_errors = false;
        Ok(GrammarEnv { factory, limits })
    }

    pub fn compile(&self, kind: Kind, source: &str) -> Result<GrammarMatcher, Failure> {
        std::thread::scope(|scope| {
            let roomy = std::thread::Builder::new().name("grammar".into()).stack_size(STACK_SIZE);
            let compile =
                || with_reserve("the grammar", 1, COMPILE_NEED, || self.compile_here(kind, source));
            let thread = roomy.spawn_scoped(scope, compile).map_err(|e| {
                Failure::new(Code::Exhausted, format!("no thread to compile on ({e}); free memory"))
            })?;
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn compile_here(&self, kind: Kind, source: &str) -> Result<GrammarMatcher, Failure> {
        let grammar = match kind {
            Kind::JsonSchema => TopLevelGrammar::from_json_schema(schema_of(source, false)?),
            Kind::LenientJsonSchema => TopLevelGrammar::from_json_schema(schema_of(source, true)?),
            Kind::Regex => TopLevelGrammar::from_regex(source),
            Kind::Lark => TopLevelGrammar::from_lark(source.to_string()),
        };
        let parser = self.factory.create_parser(grammar).map_err(|e| self.failure(&e.to_string()))?;
        if !parser.parser.grammar().lexer_spec().can_rollback() {
            let text = "max_tokens= and stop= cannot be used; limit the answer with the request's own \
                        max_tokens, and end a text with suffix=";
            return Err(Failure::new(Code::Unsupported, text));
        }
        let mut matcher = Matcher::new(Ok(parser));
        // The first mask finds what only shows when tokens are tried: a grammar without any text.
        matcher.compute_mask_or_eos().map_err(|e| self.failure(&e.to_string()))?;
        Ok(GrammarMatcher { matcher })
    }

    fn failure(&self, message: &str) -> Failure {
        let text = said(message);
        let limit = ["fuel", "precomputation", "too big", "too large", "too complex", "too many", "limit"];
        let code = if message.starts_with("panic") {
            Code::Panic
        } else if limit.iter().any(|word| text.to_lowercase().contains(word)) {
            Code::Limit
        } else {
            Code::Invalid
        };
        let text = in_words(text, "it allows no text at all; where a part refers to itself, let it end");
        let hint = if code == Code::Limit {
            format!(
                " (limits: {} symbols, {} units of lexer work)",
                self.limits.grammar_size, self.limits.lexer_fuel
            )
        } else {
            String::new()
        };
        Failure::new(code, text + &hint)
    }
}

/// llguidance names some of its reasons to stop as its own code does. `none`: what it means that nothing may
/// follow.
fn in_words(text: String, none: &str) -> String {
    match text.as_str() {
        "" | "NoExtension" | "NoExtensionBias" => none.into(),
        "LexerTooComplex" | "ParserTooComplex" => {
            "a token takes more work than the limit; make it simpler".into()
        }
        "InternalError" => "the grammar library failed inside".into(),
        _ => text,
    }
}

/// What a library said, without the dumps that it adds.
fn said(message: &str) -> String {
    let end = ["\n<", "; either increase limits"].iter().filter_map(|dump| message.find(dump)).min();
    let text: String = message[..end.unwrap_or(message.len())].trim().chars().take(400).collect();
    text.replace('\n', "; ")
}

/// One line of JSON with a blank behind commas and colons, as models are taught it. What a schema says about
/// llguidance's own options does not count.
fn schema_of(source: &str, lenient: bool) -> Result<Json, Failure> {
    let mut schema: Json = serde_json::from_str(source)
        .map_err(|e| Failure::new(Code::Invalid, format!("the schema is not JSON: {e}")))?;
    if schema == Json::Bool(true) {
        schema = json!({});
    }
    let Json::Object(fields) = &mut schema else {
        let text = format!("a schema is an object or true, and this is {}", kind_name(&schema));
        return Err(Failure::new(Code::Invalid, text));
    };
    let options = json!({
        "whitespace_flexible": false, "item_separator": ", ", "key_separator": ": ", "lenient": lenient,
    });
    fields.insert("x-guidance".into(), options);
    Ok(schema)
}

fn kind_name(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "false",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}

impl GrammarMatcher {
    /// A matcher of its own in the same state; nothing that either does changes the other.
    pub fn copy(&self) -> GrammarMatcher {
        GrammarMatcher { matcher: self.matcher.deep_clone() }
    }

    /// Bit v of word v / 32: token v is allowed. Words behind the vocabulary are 0.
    pub fn mask(&mut self, words: &mut [u32]) -> Result<(), Failure> {
        let mask = self.matcher.compute_mask_or_eos().map_err(step_failure)?;
        let found = mask.as_slice();
        let shared = found.len().min(words.len());
        words[..shared].copy_from_slice(&found[..shared]);
        words[shared..].fill(0);
        Ok(())
    }

    pub fn consume(&mut self, ids: &[TokenId]) -> Result<(), Failure> {
        self.matcher.consume_tokens(ids).map_err(step_failure)
    }

    pub fn rollback(&mut self, count: usize) -> Result<(), Failure> {
        self.matcher.rollback(count).map_err(step_failure)
    }

    /// The tokens that must follow, empty if there is a choice.
    pub fn forced(&mut self) -> Vec<TokenId> {
        if self.matcher.is_stopped() {
            return Vec::new();
        }
        self.matcher.compute_ff_tokens()
    }

    pub fn is_accepting(&mut self) -> bool {
        self.matcher.is_stopped() || self.matcher.is_accepting().unwrap_or(false)
    }

    pub fn is_stopped(&self) -> bool {
        self.matcher.is_stopped()
    }
}

fn step_failure(error: impl ToString) -> Failure {
    let message = error.to_string();
    let code = if message.starts_with("panic") { Code::Panic } else { Code::Limit };
    Failure::new(code, in_words(said(&message), "no token is allowed"))
}

/// Compiled grammars are shared by threads that copy them.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<GrammarMatcher>();
    shared::<GrammarEnv>();
};
