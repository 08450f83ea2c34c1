//! Grammars over a tokenizer's vocabulary: llguidance with a trie of the model's tokens. Clients supply
//! schemas, expressions, and grammars. Compilation and masks therefore have work limits, and compilation runs
//! on a large stack.

use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};
use llguidance::{Matcher, ParserFactory};
use serde_json::{json, Value as Json};

use crate::cost;
use crate::memory::with_reserve;
use crate::tokens::TextTokenizer;
use crate::{Code, Failure};

/// Max token size in llguidance's trie; longer tokens are never allowed. The longest known token has 1,024
/// spaces.
const MAX_TOKEN_SIZE: usize = 1000; // bytes
/// Stack for compilation, which recurses into schemas and grammars. Only touched pages use memory.
const STACK_SIZE: usize = 512 << 20; // bytes
/// Memory reserved for compilation: twice the peak of the largest source within the work limits.
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
            _ => Err(Failure::new(Code::Invalid, format!("unknown grammar kind {kind}"))),
        }
    }
}

/// The vocabulary in llguidance's form. Added tokens get a prefix byte that no text contains, so that a
/// grammar must name them to allow them.
struct Vocabulary {
    tokenizer: Arc<TextTokenizer>,
    trie: TokTrie,
}

impl Vocabulary {
    /// Ids of `text` from the model's tokenizer if they spell it byte for byte; otherwise longest match
    /// first.
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

/// One grammar in one state: the compiled grammar, or a request's own copy.
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
            Kind::JsonSchema | Kind::LenientJsonSchema => {
                let schema = schema_of(source, matches!(kind, Kind::LenientJsonSchema))?;
                cost::check_schema(&schema)?;
                TopLevelGrammar::from_json_schema(schema)
            }
            Kind::Regex => {
                cost::check_regex(source)?;
                TopLevelGrammar::from_regex(source)
            }
            Kind::Lark => {
                cost::check_lark(source)?;
                TopLevelGrammar::from_lark(source.to_string())
            }
        };
        let parser = self.factory.create_parser(grammar).map_err(|e| self.failure(&e.to_string()))?;
        if !parser.parser.grammar().lexer_spec().can_rollback() {
            let text = "max_tokens= and stop= cannot be used; limit the answer with the request's own \
                        max_tokens, and end a text with suffix=";
            return Err(Failure::new(Code::Unsupported, text));
        }
        let mut matcher = Matcher::new(Ok(parser));
        // The first mask reveals errors that need a tried token, such as a grammar without any text.
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

/// A sentence for a stop reason of llguidance, which may be an identifier of its code. `none`: the one for a
/// state where no token may follow.
fn in_words(text: String, none: &str) -> String {
    match text.as_str() {
        "" | "NoExtension" | "NoExtensionBias" => none.into(),
        "LexerTooComplex" | "ParserTooComplex" => {
            "a token takes more work than the limit; make it simpler".into()
        }
        "InternalError" => "internal error of the grammar library".into(),
        _ => text,
    }
}

/// A library's message without the dumps that it adds.
fn said(message: &str) -> String {
    let end = ["\n<", "; either increase limits"].iter().filter_map(|dump| message.find(dump)).min();
    let text: String = message[..end.unwrap_or(message.len())].trim().chars().take(400).collect();
    text.replace('\n', "; ")
}

/// Compact JSON with a space after commas and colons, as in training data. llguidance's own options in a
/// schema are overridden.
fn schema_of(source: &str, lenient: bool) -> Result<Json, Failure> {
    let mut schema: Json = serde_json::from_str(source)
        .map_err(|e| Failure::new(Code::Invalid, format!("the schema is not JSON: {e}")))?;
    if schema == Json::Bool(true) {
        schema = json!({});
    }
    let Json::Object(fields) = &mut schema else {
        let text = format!("it must be an object or true, found {}", kind_name(&schema));
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
    /// An independent matcher in the same state; changes to one do not affect the other.
    pub fn copy(&self) -> GrammarMatcher {
        GrammarMatcher { matcher: self.matcher.deep_clone() }
    }

    /// Bit v of word v / 32: token v is allowed. Words after the vocabulary are 0.
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

    /// The jump-forward tokens, which must follow; empty if there is a choice.
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

/// Threads share compiled grammars and copy them.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<GrammarMatcher>();
    shared::<GrammarEnv>();
};
