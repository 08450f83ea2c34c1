//! A tokenizer.json and the bytes of each of its ids.

use std::collections::HashMap;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value as Json;
use tokenizers::normalizer::NormalizedString;
use tokenizers::{Model, ModelWrapper, Normalizer, OffsetType, PreTokenizedString, Tokenizer};

use crate::bounded_regex::{BoundedPattern, Work};
use crate::memory::with_reserve;
use crate::steps::{check_post_processor, NormalSteps, PieceSteps};
use crate::{Code, Failure};

/// Max memory of encoding per byte of text: pieces, alignments, tokens, and ids, including list growth.
/// Measured with every byte as a separate piece and token.
const ENCODE_NEED: usize = 512; // bytes
/// Max bytes of the prefix or suffix that a model adds to parts of a word.
const MAX_AFFIX: usize = 64;

/// How the spelling of a model's token in tokenizer.json maps to bytes; added tokens are literal in both.
#[derive(Clone, Copy)]
enum Spelling {
    /// GPT-2's alphabet: one printable character per byte.
    ByteLevel,
    /// SentencePiece: U+2581 is a space, <0xNN> is a byte.
    ByteFallback,
}

pub struct TextTokenizer {
    inner: Tokenizer,
    normal: NormalSteps,
    pieces: PieceSteps,
    spelling: Spelling,
    vocab_size: u32,
    text_per_byte: u32,
    added: HashMap<u32, bool>, // id -> special
    bytes: Alphabet,
}

pub struct Token {
    pub bytes: Vec<u8>,
    pub added: bool,
    pub special: bool,
}

/// The byte of each character of GPT-2's alphabet, by its number. Bytes 33-126, 161-172, and 174-255 map to
/// themselves; the other 68 map to U+0100 and up.
struct Alphabet(Vec<Option<u8>>);

impl Alphabet {
    fn new() -> Alphabet {
        let mut bytes = vec![None; 256 + 68];
        let mut next = 256;
        for byte in 0..=255u8 {
            let place = match byte {
                33..=126 | 161..=172 | 174..=255 => usize::from(byte),
                _ => {
                    next += 1;
                    next - 1
                }
            };
            bytes[place] = Some(byte);
        }
        Alphabet(bytes)
    }

    fn get(&self, letter: char) -> Option<u8> {
        self.0.get(letter as usize).copied().flatten()
    }

    fn letters(&self) -> impl Iterator<Item = char> + '_ {
        let known = self.0.iter().enumerate().filter(|(_, byte)| byte.is_some());
        known.filter_map(|(place, _)| char::from_u32(place as u32))
    }
}

/// A tokenizer.json without its vocabulary and merges, which are most of it.
struct Outline {
    of_model: bool,
}

impl<'de> DeserializeSeed<'de> for Outline {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Json, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Outline {
    type Value = Json;

    fn expecting(&self, to: &mut std::fmt::Formatter) -> std::fmt::Result {
        to.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Json, A::Error> {
        let mut found = serde_json::Map::new();
        while let Some(key) = from.next_key::<String>()? {
            if self.of_model && (key == "vocab" || key == "merges") {
                from.next_value::<IgnoredAny>()?;
            } else if !self.of_model && key == "model" {
                let model = from.next_value_seed(Outline { of_model: true })?;
                found.insert(key, model);
            } else {
                let value = from.next_value::<Json>()?;
                found.insert(key, value);
            }
        }
        Ok(Json::Object(found))
    }
}

fn outline(json: &[u8]) -> Result<Json, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    match (Outline { of_model: false }).deserialize(&mut reader) {
        Ok(found) => reader.end().map(|()| found),
        Err(_) => serde_json::from_slice(json), // another shape is described by what it lacks
    }
}

fn spelling_of(decoder: &Json) -> Option<Spelling> {
    match decoder["type"].as_str()? {
        "ByteLevel" => Some(Spelling::ByteLevel),
        "ByteFallback" => Some(Spelling::ByteFallback),
        "Sequence" => decoder["decoders"].as_array()?.iter().find_map(spelling_of),
        _ => None,
    }
}

fn knows(tokenizer: &Tokenizer, token: &str) -> bool {
    tokenizer.get_model().token_to_id(token).is_some()
}

/// Max bytes of text per byte of normalised text. None if text may vanish (a normalizer that strips, spaces
/// around an added token) or a token may match any text (unknown tokens).
fn shrinking_of(document: &Json) -> Option<u32> {
    let model = &document["model"];
    let plain = |name: &str| model[name].as_str().unwrap_or("").is_empty();
    let strips = |token: &Json| token["lstrip"] == true || token["rstrip"] == true;
    let added = document["added_tokens"].as_array();
    if model["type"] != "BPE"
        || !plain("continuing_subword_prefix")
        || !plain("end_of_word_suffix")
        || added.is_some_and(|tokens| tokens.iter().any(strips))
        || !keeps_all(&document["pre_tokenizer"])
    {
        return None;
    }
    normalizer_shrinking(&document["normalizer"])
}

fn normalizer_shrinking(normalizer: &Json) -> Option<u32> {
    if normalizer.is_null() {
        return Some(1);
    }
    match normalizer["type"].as_str()? {
        // The worst case of Unicode 15 is U+03B9 U+0308 U+0301 from U+1FBE: 7 bytes for 2.
        "NFC" | "NFD" => Some(4),
        "ByteLevel" | "Prepend" => Some(1),
        "Replace" => {
            let from = normalizer["pattern"]["String"].as_str()?;
            let to = normalizer["content"].as_str()?;
            (to.len() >= from.len()).then_some(1)
        }
        "Sequence" => {
            let parts = normalizer["normalizers"].as_array()?;
            parts.iter().try_fold(1u32, |all, part| all.checked_mul(normalizer_shrinking(part)?))
        }
        _ => None,
    }
}

/// True if every input character is in some piece.
fn keeps_all(pre_tokenizer: &Json) -> bool {
    match pre_tokenizer["type"].as_str() {
        None => pre_tokenizer.is_null(),
        Some("ByteLevel" | "Metaspace" | "Digits") => true,
        Some("Split" | "Punctuation") => pre_tokenizer["behavior"] != "Removed",
        Some("Sequence") => {
            pre_tokenizer["pretokenizers"].as_array().is_some_and(|parts| parts.iter().all(keeps_all))
        }
        Some(_) => false,
    }
}

/// The library compiles the patterns of a decoder too.
fn check_patterns(step: &Json) -> Result<(), Failure> {
    match step {
        Json::Object(fields) => fields.iter().try_for_each(|(key, value)| match value.as_str() {
            Some(pattern) if key == "Regex" => BoundedPattern::regex(pattern).map(drop),
            _ => check_patterns(value),
        }),
        Json::Array(items) => items.iter().try_for_each(check_patterns),
        _ => Ok(()),
    }
}

/// The library normalizes added tokens when it loads.
fn check_added(tokens: &Json, normal: &NormalSteps) -> Result<(), Failure> {
    for token in tokens.as_array().into_iter().flatten() {
        let Some(content) = token["content"].as_str().filter(|_| token["normalized"] != false) else {
            continue;
        };
        let work = Work::on(content.len());
        let normalizing = normal.on(content.len(), &work);
        normalizing
            .normalize(&mut NormalizedString::from(content))
            .map_err(|e| Failure::new(Code::Corrupt, e.to_string()))?;
        normalizing.outcome().map_err(|e| {
            let shown: String = content.chars().take(40).collect();
            Failure::new(Code::Corrupt, format!("its added token {shown:?}: {}", e.message))
        })?;
    }
    Ok(())
}

/// The model repeats them for each character.
fn check_affixes(model: &Json) -> Result<(), Failure> {
    for name in ["continuing_subword_prefix", "end_of_word_suffix"] {
        let size = model[name].as_str().map_or(0, str::len);
        if size > MAX_AFFIX {
            let text = format!("{name} has {size} bytes, more than the limit of {MAX_AFFIX}");
            return Err(Failure::new(Code::Corrupt, text));
        }
    }
    Ok(())
}

impl TextTokenizer {
    pub fn parse(json: &[u8]) -> Result<TextTokenizer, Failure> {
        let corrupt = |e: String| Failure::new(Code::Corrupt, e);
        let document: Json = outline(json).map_err(|e| corrupt(format!("not valid JSON: {e}")))?;
        let spelling = spelling_of(&document["decoder"]).ok_or_else(|| {
            Failure::new(
                Code::Unsupported,
                format!(
                    "its decoder is {}, but only ByteLevel and ByteFallback are supported",
                    document["decoder"]
                ),
            )
        })?;
        let shrinking = shrinking_of(&document);
        let normal = NormalSteps::parse(&document["normalizer"])?;
        let pieces = PieceSteps::parse(&document["pre_tokenizer"])?;
        check_post_processor(&document["post_processor"])?;
        check_patterns(&document["decoder"])?;
        check_added(&document["added_tokens"], &normal)?;
        check_affixes(&document["model"])?;
        drop(document);
        let mut inner = Tokenizer::from_bytes(json).map_err(|e| corrupt(e.to_string()))?;
        if !matches!(inner.get_model(), ModelWrapper::BPE(_) | ModelWrapper::WordLevel(_)) {
            let text = "its model is not BPE or WordLevel, which are the supported ones";
            return Err(Failure::new(Code::Unsupported, text));
        }
        // The file's padding and truncation settings are for training batches.
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|e| corrupt(e.to_string()))?;
        let added: HashMap<u32, bool> =
            inner.get_added_tokens_decoder().iter().map(|(id, token)| (*id, token.special)).collect();
        let highest = inner.get_vocab(true).values().copied().chain(added.keys().copied()).max();
        let highest = highest.ok_or_else(|| corrupt("its vocabulary is empty".into()))?;
        let bytes = Alphabet::new();
        let spells_all = match spelling {
            Spelling::ByteLevel => bytes.letters().all(|c| knows(&inner, &c.to_string())),
            Spelling::ByteFallback => (0..=255u8).all(|byte| knows(&inner, &format!("<0x{byte:02X}>"))),
        };
        let text_per_byte = if spells_all { shrinking.unwrap_or(0) } else { 0 };
        Ok(TextTokenizer {
            inner,
            normal,
            pieces,
            spelling,
            vocab_size: highest + 1,
            text_per_byte,
            added,
            bytes,
        })
    }

    /// Max bytes of text per byte of its tokens; 0: no such bound.
    pub fn text_per_byte(&self) -> u32 {
        self.text_per_byte
    }

    pub fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    pub fn id(&self, content: &str) -> Option<u32> {
        self.inner.token_to_id(content)
    }

    pub fn token(&self, id: u32) -> Result<Token, Failure> {
        let content = self.inner.id_to_token(id).ok_or_else(|| {
            Failure::new(Code::Invalid, format!("token id {id} is not in the vocabulary"))
        })?;
        let special = self.added.get(&id).copied();
        let bytes = if special.is_some() { content.into_bytes() } else { self.spell(&content) };
        Ok(Token { bytes, added: special.is_some(), special: special.unwrap_or(false) })
    }

    fn spell(&self, content: &str) -> Vec<u8> {
        match self.spelling {
            Spelling::ByteLevel => {
                let mapped: Option<Vec<u8>> = content.chars().map(|c| self.bytes.get(c)).collect();
                mapped.unwrap_or_else(|| content.as_bytes().to_vec())
            }
            Spelling::ByteFallback => {
                let hex = content.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
                match hex.filter(|h| h.len() == 2).and_then(|h| u8::from_str_radix(h, 16).ok()) {
                    Some(byte) => vec![byte],
                    None => content.replace('\u{2581}', " ").into_bytes(),
                }
            }
        }
    }

    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>, Failure> {
        with_reserve("the text", ENCODE_NEED, text.len(), || {
            let work = Work::on(text.len());
            let normalizing = self.normal.on(text.len(), &work);
            let mut pieces =
                self.inner.get_added_vocabulary().extract_and_normalize(Some(&normalizing), text);
            let made = normalizing.made();
            normalizing.outcome()?;
            if made <= text.len() {
                return self.finish(&mut pieces, &work, add_special);
            }
            with_reserve("the text", ENCODE_NEED, made, || self.finish(&mut pieces, &work, add_special))
        })
    }

    /// The steps after the normalizer, as encode_fast() of the library takes them.
    fn finish(
        &self,
        pieces: &mut PreTokenizedString,
        work: &Work,
        add_special: bool,
    ) -> Result<Vec<u32>, Failure> {
        let invalid =
            |e: tokenizers::Error| Failure::new(Code::Invalid, format!("the text cannot be encoded: {e}"));
        self.pieces.cut(pieces, work)?;
        let mut pieces = std::mem::replace(pieces, PreTokenizedString::from(""));
        self.inner.get_model().tokenize_in_pretokenized(&mut pieces, None).map_err(invalid)?;
        let encoding = pieces.into_encoding(None, 0, OffsetType::None).map_err(invalid)?;
        let encoding = self.inner.post_process(encoding, None, add_special).map_err(invalid)?;
        Ok(encoding.get_ids().to_vec())
    }
}
