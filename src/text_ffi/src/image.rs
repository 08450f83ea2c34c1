//! Pictures to rows of 8-bit RGB, upright: PNG, JPEG, WebP, GIF and BMP by the `image` crate. The header is
//! read first; a picture beyond the limits is refused before memory for its pixels is taken.

use std::io::Cursor;

use ::image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};

use crate::{Code, Failure};

/// Mirrors ft_image_limits.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PictureLimits {
    pub bytes: u64,
    pub side: u32,
    pub pixels: u64,
}

#[derive(Debug)]
pub struct Picture {
    pub width: u32,
    pub height: u32,
    pub rgb: Vec<u8>,
}

const KINDS: &str = "PNG, JPEG, WebP, GIF or BMP";

/// Memory of a decoder in addition to the pixels: frames of GIF and WebP, tables.
const DECODER_BYTES_PER_PIXEL: u64 = 24;
const DECODER_BYTES: u64 = 16 << 20;

fn corrupt(why: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Corrupt, format!("the picture cannot be decoded ({why}); send the whole file"))
}

fn kind_of(bytes: &[u8]) -> Result<ImageFormat, Failure> {
    match ::image::guess_format(bytes) {
        Ok(
            kind @ (ImageFormat::Png
            | ImageFormat::Jpeg
            | ImageFormat::WebP
            | ImageFormat::Gif
            | ImageFormat::Bmp),
        ) => Ok(kind),
        _ => Err(Failure::new(
            Code::Unsupported,
            format!("the file is not a picture of a known kind; send {KINDS}"),
        )),
    }
}

/// False if the file ends before its picture does. The decoders of JPEG and WebP fill the missing part with
/// grey; Pillow refuses such files, and so do the decoders of the other formats.
fn is_whole(kind: ImageFormat, bytes: &[u8]) -> bool {
    match kind {
        ImageFormat::Jpeg => jpeg_has_end(bytes),
        ImageFormat::WebP => match bytes.get(4..8) {
            // "RIFF", the size of the rest, "WEBP" and the chunks. The last padding byte may be missing.
            Some(&[a, b, c, d]) => {
                bytes.len() as u64 + 1 >= u64::from(u32::from_le_bytes([a, b, c, d])) + 8
            }
            _ => false,
        },
        _ => true,
    }
}

/// True if the segments of a JPEG lead to its end marker; a thumbnail inside a segment has one too.
fn jpeg_has_end(bytes: &[u8]) -> bool {
    let mut at = 2; // after the start marker
    loop {
        // Scan data or padding, up to a marker that is neither an escaped 0xFF nor a restart.
        while let (Some(&first), Some(&second)) = (bytes.get(at), bytes.get(at + 1)) {
            if first == 0xff && !matches!(second, 0x00 | 0x01 | 0xd0..=0xd7 | 0xff) {
                break;
            }
            at += 1;
        }
        let Some(&marker) = bytes.get(at + 1) else { return false };
        if marker == 0xd9 {
            return true;
        }
        let Some(&[high, low]) = bytes.get(at + 2..at + 4) else { return false };
        at += 2 + usize::from(u16::from_be_bytes([high, low])).max(2);
    }
}

fn check_size(width: u32, height: u32, limits: &PictureLimits) -> Result<(), Failure> {
    if width == 0 || height == 0 {
        return Err(corrupt("it has no pixels"));
    }
    let pixels = u64::from(width) * u64::from(height);
    if width > limits.side || height > limits.side || pixels > limits.pixels {
        return Err(Failure::new(
            Code::Limit,
            format!(
                "the picture has {width} x {height} pixels, and {} a side and {} together are the limits; \
                 send a smaller one",
                limits.side, limits.pixels
            ),
        ));
    }
    Ok(())
}

/// Drops alpha, like Pillow's convert("RGB").
fn to_rgb(picture: DynamicImage) -> Picture {
    let rgb = picture.into_rgb8();
    Picture { width: rgb.width(), height: rgb.height(), rgb: rgb.into_raw() }
}

pub fn decode(bytes: &[u8], limits: &PictureLimits) -> Result<Picture, Failure> {
    if bytes.len() as u64 > limits.bytes {
        return Err(Failure::new(
            Code::Limit,
            format!(
                "the file has {} bytes, more than the limit of {}; send a smaller one",
                bytes.len(),
                limits.bytes
            ),
        ));
    }
    let kind = kind_of(bytes)?;
    if !is_whole(kind, bytes) {
        return Err(corrupt("it ends too early"));
    }
    let mut memory = Limits::no_limits();
    memory.max_alloc = Some(limits.pixels.saturating_mul(DECODER_BYTES_PER_PIXEL) + DECODER_BYTES);
    let mut reader = ImageReader::with_format(Cursor::new(bytes), kind);
    reader.limits(memory);
    let mut decoder = reader.into_decoder().map_err(corrupt)?;
    let (width, height) = decoder.dimensions();
    check_size(width, height, limits)?;
    let orientation = decoder.orientation().map_err(corrupt)?;
    let mut picture = DynamicImage::from_decoder(decoder).map_err(corrupt)?;
    picture.apply_orientation(orientation);
    Ok(to_rgb(picture))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PictureLimits = PictureLimits { bytes: 1 << 20, side: 64, pixels: 1 << 10 };

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let picture = DynamicImage::new_rgb8(width, height);
        picture.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png).unwrap();
        bytes
    }

    #[test]
    fn sizes_are_limited_before_decoding() {
        assert_eq!(decode(&png(32, 32), &LIMITS).unwrap().rgb.len(), 3072);
        assert_eq!(decode(&png(33, 32), &LIMITS).unwrap_err().code, Code::Limit);
        assert_eq!(decode(&png(65, 1), &LIMITS).unwrap_err().code, Code::Limit);
    }

    #[test]
    fn a_jpeg_ends_at_its_own_end_marker() {
        // A thumbnail with an end marker inside a segment, padding, a scan with a stuffed byte and a restart.
        let head = [0xff, 0xd8, 0xff, 0xe1, 0, 6, 0xff, 0xd8, 0xff, 0xd9, 0xff, 0xff, 0xda, 0, 3, 1];
        let scan = [7, 0xff, 0x00, 8, 0xff, 0xd3, 9];
        let whole = [&head[..], &scan[..], &[0xff, 0xd9]].concat();
        assert!(jpeg_has_end(&whole));
        assert!(jpeg_has_end(&[&whole[..], b"after it"].concat()));
        for size in 2..whole.len() {
            assert!(!jpeg_has_end(&whole[..size]), "{size}");
        }
        let progressive = [&head[..], &scan[..], &head[12..], &scan[..], &[0xff, 0xd9]].concat();
        assert!(jpeg_has_end(&progressive));
        assert!(!jpeg_has_end(&progressive[..progressive.len() - 2]));
    }

    #[test]
    fn a_cut_file_is_corrupt() {
        let whole = png(32, 32);
        for size in 8..whole.len() {
            assert!(decode(&whole[..size], &LIMITS).is_err() || size + 12 >= whole.len());
        }
        assert_eq!(decode(b"hello", &LIMITS).unwrap_err().code, Code::Unsupported);
    }
}
