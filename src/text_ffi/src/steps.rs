//! The steps of a tokenizer before its model: normalizers and pre-tokenizers of tokenizer.json, with bounds.
//! Each behaves as its counterpart in the tokenizers crate, but the text's size is checked between steps and
//! before a replacement, and patterns have limits (bounded_regex.rs). The files are untrusted: one
//! replacement may turn a letter into megabytes, and successive steps multiply.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use serde_json::Value as Json;
use tokenizers::normalizer::NormalizedString;
use tokenizers::pattern::Invert;
use tokenizers::{
    Normalizer, NormalizerWrapper, PreTokenizedString, PreTokenizer, PreTokenizerWrapper,
    SplitDelimiterBehavior,
};

use crate::bounded_regex::{BoundedPattern, Work};
use crate::{Code, Failure};

/// Max steps of one kind in a file. Public models have at most 20.
const MAX_STEPS: usize = 64;
/// Max growth of a text by its normalizers: this factor, plus some bytes for short texts.
pub const MAX_GROWTH: usize = 8;
const SPARE: usize = 4096; // bytes
/// Max growth of a text by its pre-tokenizers, which follows from their kinds.
const MAX_PIECE_GROWTH: u64 = 16;

fn corrupt(text: impl Into<String>) -> Failure {
    Failure::new(Code::Corrupt, text)
}

/// The leaves of nested sequences, in order.
fn leaves<'a>(step: &'a Json, parts: &str, out: &mut Vec<&'a Json>) -> Result<(), Failure> {
    let named = step["type"].as_str();
    match step[parts].as_array() {
        Some(inner) if named == Some("Sequence") || named.is_none() => {
            inner.iter().try_for_each(|one| leaves(one, parts, out))
        }
        _ if step.is_null() => Ok(()),
        _ if out.len() == MAX_STEPS => Err(corrupt(format!("more than {MAX_STEPS} {parts}, the limit"))),
        _ => {
            out.push(step);
            Ok(())
        }
    }
}

fn pattern_of(step: &Json) -> Result<BoundedPattern, Failure> {
    match (step["pattern"]["String"].as_str(), step["pattern"]["Regex"].as_str()) {
        (Some(text), _) => Ok(BoundedPattern::Text(text.into())),
        (None, Some(pattern)) => BoundedPattern::regex(pattern),
        (None, None) => Err(corrupt(format!("a {} without a pattern", step["type"]))),
    }
}

enum NormalStep {
    Replace {
        pattern: BoundedPattern,
        content: String,
    },
    Prepend {
        size: usize,
        step: NormalizerWrapper,
    },
    /// A step whose growth Unicode bounds: a character becomes at most 12 times as long.
    Other(NormalizerWrapper),
}

pub struct NormalSteps(Vec<NormalStep>);

impl NormalSteps {
    pub fn parse(normalizer: &Json) -> Result<NormalSteps, Failure> {
        let mut found = Vec::new();
        leaves(normalizer, "normalizers", &mut found)?;
        let steps: Result<Vec<NormalStep>, Failure> = found.into_iter().map(NormalStep::parse).collect();
        Ok(NormalSteps(steps?))
    }

    /// The normalizer of a text of `size` bytes.
    pub fn on<'a>(&'a self, size: usize, work: &'a Work) -> Normalizing<'a> {
        let most = size.saturating_mul(MAX_GROWTH).saturating_add(SPARE);
        Normalizing { steps: &self.0, work, most, made: AtomicUsize::new(0), failure: Mutex::new(None) }
    }
}

impl NormalStep {
    fn parse(json: &Json) -> Result<NormalStep, Failure> {
        if json["type"] == "Replace" {
            let content = json["content"].as_str().ok_or_else(|| corrupt("a Replace without content"))?;
            return Ok(NormalStep::Replace { pattern: pattern_of(json)?, content: content.into() });
        }
        let step: NormalizerWrapper = serde_json::from_value(json.clone())
            .map_err(|e| corrupt(format!("its normalizer {}: {e}", json["type"])))?;
        match step {
            NormalizerWrapper::Sequence(_)
            | NormalizerWrapper::Replace(_)
            | NormalizerWrapper::Precompiled(_) => {
                let text = format!("its normalizer {} is not supported", json["type"]);
                Err(Failure::new(Code::Unsupported, text))
            }
            NormalizerWrapper::Prepend(ref prepend) => {
                Ok(NormalStep::Prepend { size: prepend.prepend.len(), step })
            }
            step => Ok(NormalStep::Other(step)),
        }
    }
}

/// Normalizes the parts of one text. tokenizers ignores errors of a normalizer, so the first one is kept
/// here, and the parts after it stay as they are.
pub struct Normalizing<'a> {
    steps: &'a [NormalStep],
    work: &'a Work,
    most: usize,       // bytes of all parts
    made: AtomicUsize, // bytes of the parts so far
    failure: Mutex<Option<Failure>>,
}

impl Normalizing<'_> {
    /// Call it after the last part.
    pub fn outcome(self) -> Result<(), Failure> {
        self.failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// Bytes of all normalized parts.
    pub fn made(&self) -> usize {
        self.made.load(Relaxed)
    }

    fn check(&self, size: usize) -> Result<(), Failure> {
        if size.saturating_add(self.made.load(Relaxed)) > self.most {
            let text = format!(
                "the normalizer of the model's tokenizer makes the text longer than {} bytes, {MAX_GROWTH} \
                 times its size and {SPARE} more, which is the limit; use a tokenizer that keeps texts \
                 about as long as they are",
                self.most
            );
            return Err(Failure::new(Code::Limit, text));
        }
        Ok(())
    }

    fn apply(&self, text: &mut NormalizedString) -> Result<(), Failure> {
        let failed = |e: tokenizers::Error| Failure::new(Code::Invalid, format!("a normalizer fails: {e}"));
        for step in self.steps {
            match step {
                NormalStep::Replace { pattern, content } => {
                    let found = pattern.find(text.get(), self.work)?;
                    let (mut gone, mut count) = (0, 0usize);
                    for (part, is_match) in &found.0 {
                        gone += if *is_match { part.1 - part.0 } else { 0 };
                        count += usize::from(*is_match);
                    }
                    self.check((text.len() - gone).saturating_add(count.saturating_mul(content.len())))?;
                    text.replace(found, content).map_err(failed)?;
                }
                NormalStep::Prepend { size, step } => {
                    self.check(text.len().saturating_add(*size))?;
                    step.normalize(text).map_err(failed)?;
                }
                NormalStep::Other(step) => step.normalize(text).map_err(failed)?,
            }
            self.check(text.len())?;
        }
        self.made.fetch_add(text.len(), Relaxed);
        Ok(())
    }
}

impl Normalizer for Normalizing<'_> {
    fn normalize(&self, text: &mut NormalizedString) -> tokenizers::Result<()> {
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            *first = self.apply(text).err();
        }
        Ok(())
    }
}

enum PieceStep {
    Split { pattern: BoundedPattern, behavior: SplitDelimiterBehavior, invert: bool },
    Other(PreTokenizerWrapper),
}

pub struct PieceSteps(Vec<PieceStep>);

/// Max bytes of the pieces per byte before the step.
fn growth_of(json: &Json) -> u64 {
    match json["type"].as_str() {
        Some("ByteLevel") if json["add_prefix_space"] == false => 2,
        Some("ByteLevel") => 4, // a blank in front of each piece, and two bytes for each byte
        Some("Metaspace") => 8, // its mark in place of each blank and in front of each piece
        _ => 1,
    }
}

impl PieceSteps {
    pub fn parse(pre_tokenizer: &Json) -> Result<PieceSteps, Failure> {
        let mut found = Vec::new();
        leaves(pre_tokenizer, "pretokenizers", &mut found)?;
        let growth = found.iter().fold(1u64, |all, step| all.saturating_mul(growth_of(step)));
        if growth > MAX_PIECE_GROWTH {
            return Err(corrupt(format!(
                "its pre-tokenizers may make a text {growth} times as long, more than the limit of \
                 {MAX_PIECE_GROWTH}"
            )));
        }
        let steps: Result<Vec<PieceStep>, Failure> = found.into_iter().map(PieceStep::parse).collect();
        Ok(PieceSteps(steps?))
    }

    pub fn cut(&self, text: &mut PreTokenizedString, work: &Work) -> Result<(), Failure> {
        self.0.iter().try_for_each(|step| step.cut(text, work).map_err(piece_failure))
    }
}

fn piece_failure(error: tokenizers::Error) -> Failure {
    match error.downcast::<Failure>() {
        Ok(failure) => *failure,
        Err(e) => Failure::new(Code::Invalid, format!("the text cannot be cut: {e}")),
    }
}

impl PieceStep {
    fn parse(json: &Json) -> Result<PieceStep, Failure> {
        let wrong = |e: String| corrupt(format!("its pre-tokenizer {}: {e}", json["type"]));
        if json["type"] == "Split" {
            // Before the library compiles it.
            let pattern = pattern_of(json)?;
            let behavior = serde_json::from_value(json["behavior"].clone());
            let behavior = behavior.map_err(|e| wrong(e.to_string()))?;
            let invert = json["invert"].as_bool().ok_or_else(|| wrong("invert is missing".into()))?;
            return Ok(PieceStep::Split { pattern, behavior, invert });
        }
        let step: PreTokenizerWrapper =
            serde_json::from_value(json.clone()).map_err(|e| wrong(e.to_string()))?;
        if matches!(step, PreTokenizerWrapper::Sequence(_) | PreTokenizerWrapper::Split(_)) {
            return Err(wrong("the type is missing".into()));
        }
        Ok(PieceStep::Other(step))
    }

    fn cut(&self, text: &mut PreTokenizedString, work: &Work) -> tokenizers::Result<()> {
        match self {
            PieceStep::Other(step) => step.pre_tokenize(text),
            PieceStep::Split { pattern, behavior, invert } => text.split(|_, piece| {
                let found = pattern.find(piece.get(), work)?;
                if *invert {
                    piece.split(Invert(found), *behavior)
                } else {
                    piece.split(found, *behavior)
                }
            }),
        }
    }
}

/// A template of tokens around a text may hold the text many times.
pub fn check_post_processor(processor: &Json) -> Result<(), Failure> {
    const MAX_ITEMS: usize = 64; // of a template, tokens of an item
    let mut found = Vec::new();
    leaves(processor, "processors", &mut found)?;
    for step in found {
        let items = step["single"].as_array().map_or(&[][..], Vec::as_slice);
        let texts = items.iter().filter(|item| !item["Sequence"].is_null()).count();
        let ids = step["special_tokens"].as_object().into_iter().flatten();
        let most = ids.filter_map(|(_, token)| token["ids"].as_array()).map(Vec::len).max().unwrap_or(0);
        if texts > 1 || items.len() > MAX_ITEMS || most > MAX_ITEMS {
            return Err(corrupt(format!(
                "its post-processor repeats the text, or adds more than {MAX_ITEMS} tokens"
            )));
        }
    }
    Ok(())
}
