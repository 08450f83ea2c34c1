"""Small pictures of every kind for src/images/picture_test.cpp and its fuzz target, and the demo of assets/.

  python tools/make_pictures.py     needs Pillow

All of tests/golden/pictures show the same 24 x 16 pixels: red left, blue right, a white line at the top. turned.jpg
is stored on its side with an EXIF orientation. assets/shapes.png is a red circle and a blue square.
"""

import pathlib
import shutil

from PIL import Image, ImageDraw

ROOT = pathlib.Path(__file__).resolve().parent.parent


def plain():
    picture = Image.new("RGB", (24, 16), (220, 20, 20))
    draw = ImageDraw.Draw(picture)
    draw.rectangle((12, 0, 23, 15), fill=(20, 20, 220))
    draw.rectangle((0, 0, 23, 3), fill=(255, 255, 255))
    return picture


def kinds(out):
    out.mkdir(parents=True, exist_ok=True)
    picture = plain()
    picture.save(out / "plain.png")
    alpha = picture.convert("RGBA")
    alpha.putalpha(90)
    alpha.save(out / "alpha.png")
    picture.convert("P", palette=Image.Palette.ADAPTIVE).save(out / "palette.gif")
    picture.save(out / "lossless.webp", lossless=True)
    picture.save(out / "bitmap.bmp")
    exif = Image.Exif()
    exif[0x0112] = 6  # shown after a quarter turn clockwise
    picture.transpose(Image.Transpose.ROTATE_90).save(out / "turned.jpg", quality=95, subsampling=0, exif=exif)


def demo():
    picture = Image.new("RGB", (192, 128), (224, 224, 224))
    draw = ImageDraw.Draw(picture)
    draw.ellipse((18, 34, 78, 94), fill=(214, 40, 40))
    draw.rectangle((112, 36, 170, 94), fill=(40, 70, 200))
    return picture


def main():
    demo().save(ROOT / "assets/shapes.png", optimize=True)
    pictures = ROOT / "tests/golden/pictures"
    kinds(pictures)
    corpus = ROOT / "tests/fuzz/picture_fuzz"
    corpus.mkdir(parents=True, exist_ok=True)
    for path in sorted(pictures.iterdir()):
        shutil.copy(path, corpus / path.name)


if __name__ == "__main__":
    main()
