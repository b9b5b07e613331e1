"""What Pillow makes of small pictures: files decoded, and pixels scaled. Writes pictures/golden.safetensors.

Needs Pillow 12.0.0, numpy and safetensors:  python pictures.py
Pillow 13.0.0 scales the columns first where that is less work to it, which moves some bytes by 1; all before it begin with rows.

resize.<case>.from    u8 [h, w, c]; resize.<case>.<filter>  u8 [h', w', c], by Image.resize
fit.<case>.from       u8 [h, w, c]; fit.<case>.<filter>     u8 [s, s, c], the short side scaled to `short` and the middle of s x s cut
                      out as torchvision does it; `short` is the last number of the case's name
decode.<case>.file    the bytes of a file; decode.<case>.pixels  u8 [h, w, c], turned as its EXIF says, `convert("RGB")` or ("L")
jpeg.<case>.file      the same of JPEG, in which decoders may differ a little
"""

import io
import pathlib

import numpy as np
from PIL import Image, ImageOps
from safetensors.numpy import save_file

FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
random = np.random.default_rng(20261123)


def picture(height, width, channels):
    """Smooth, with an edge and with noise, so that rounding shows."""
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    smooth = 127 + 90 * np.sin(y / 5 + c) * np.cos(x / 7 - c)
    smooth[:, width // 2 :] = 255 - smooth[:, width // 2 :]
    noisy = smooth + random.normal(0, 25, smooth.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8)


def image(pixels):
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def array(image):
    pixels = np.asarray(image)
    return np.ascontiguousarray(pixels if pixels.ndim == 3 else pixels[:, :, None])


def resized():
    cases = [
        ((7, 5, 1), (13, 9)),
        ((28, 28, 1), (32, 32)),
        ((31, 17, 3), (8, 8)),
        ((64, 48, 3), (40, 61)),
        ((9, 90, 3), (9, 11)),
        ((90, 9, 1), (11, 9)),
        ((1, 1, 3), (4, 3)),
        ((50, 70, 3), (1, 1)),
    ]
    for number, (size, (height, width)) in enumerate(cases):
        pixels = picture(*size)
        yield f"resize.{number}.from", pixels
        for name, which in FILTERS.items():
            yield f"resize.{number}.{name}", array(image(pixels).resize((width, height), which))


def fitted():
    for number, (size, side, short) in enumerate(
        [((47, 60, 3), 16, 16), ((60, 47, 3), 16, 19), ((33, 20, 1), 24, 24), ((25, 26, 3), 20, 23), ((40, 91, 1), 12, 15)]
    ):
        pixels = picture(*size)
        height, width, _ = size
        new = (short, int(short * width / height)) if height <= width else (int(short * height / width), short)
        top, left = int(round((new[0] - side) / 2.0)), int(round((new[1] - side) / 2.0))
        yield f"fit.{number}.{short}.from", pixels
        for name, which in FILTERS.items():
            scaled = image(pixels).resize((new[1], new[0]), which)
            yield f"fit.{number}.{short}.{name}", array(scaled.crop((left, top, left + side, top + side)))


def stored(image, **options):
    file = io.BytesIO()
    image.save(file, **options)
    return file.getvalue()


def decoded():
    colour, grey = picture(11, 14, 3), picture(9, 13, 1)
    rgb, luma = image(colour), image(grey)
    alpha = np.concatenate([colour, picture(11, 14, 1)], axis=2)
    grey_alpha = np.concatenate([grey, picture(9, 13, 1)], axis=2)
    # Every pixel with as many low bits as high ones: the high byte is what counts.
    wide = grey[:, :, 0].astype(np.uint16) << 8 | random.integers(0, 256, grey.shape[:2], dtype=np.uint16)
    files = {
        "png-colour": stored(rgb, format="PNG"),
        "png-grey": stored(luma, format="PNG"),
        "png-palette": stored(rgb.quantize(16), format="PNG"),
        "png-one-bit": stored(luma.convert("1"), format="PNG"),
        "png-alpha": stored(Image.fromarray(alpha), format="PNG"),
        "png-grey-alpha": stored(Image.fromarray(grey_alpha, mode="LA"), format="PNG"),
        "png-16-bits": stored(Image.fromarray(wide), format="PNG"),
        "bmp-colour": stored(rgb, format="BMP"),
        "bmp-palette": stored(rgb.quantize(16), format="BMP"),
        "gif": stored(rgb.quantize(32), format="GIF"),
        "webp-lossless": stored(rgb, format="WEBP", lossless=True),
        "tiff-lzw": stored(rgb, format="TIFF", compression="tiff_lzw"),
        "tiff-deflate": stored(luma, format="TIFF", compression="tiff_adobe_deflate"),
        "ppm": stored(rgb, format="PPM"),
        "pgm": stored(luma, format="PPM"),
    }
    for turns in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = turns
        files[f"png-turned-{turns}"] = stored(rgb, format="PNG", exif=exif)
    for name, file in files.items():
        opened = ImageOps.exif_transpose(Image.open(io.BytesIO(file)))
        is_grey = name in ("png-grey", "png-one-bit", "png-grey-alpha", "tiff-deflate", "pgm")
        pixels = array(opened.convert("L" if is_grey else "RGB"))
        if name == "png-16-bits":
            pixels = (wide >> 8).astype(np.uint8)[:, :, None]
        yield f"decode.{name}.file", np.frombuffer(file, np.uint8)
        yield f"decode.{name}.pixels", pixels


def of_jpeg():
    y, x, c = np.mgrid[0:40, 0:56, 0:3]
    smooth = (127 + 80 * np.sin(y / 9 + c) * np.cos(x / 11)).astype(np.uint8)
    rgb = image(smooth)
    files = {
        "baseline": stored(rgb, format="JPEG", quality=92),
        "progressive": stored(rgb, format="JPEG", quality=92, progressive=True),
        "grey": stored(rgb.convert("L"), format="JPEG", quality=92),
        "cmyk": stored(rgb.convert("CMYK"), format="JPEG", quality=92),
        "full-colour": stored(rgb, format="JPEG", quality=92, subsampling=0),
    }
    for turns in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = turns
        files[f"turned-{turns}"] = stored(rgb, format="JPEG", quality=92, exif=exif)
    for name, file in files.items():
        opened = ImageOps.exif_transpose(Image.open(io.BytesIO(file)))
        yield f"jpeg.{name}.file", np.frombuffer(file, np.uint8)
        yield f"jpeg.{name}.pixels", array(opened.convert("L" if name == "grey" else "RGB"))


folder = pathlib.Path(__file__).parent / "pictures"
folder.mkdir(exist_ok=True)
tensors = {}
for part in (resized(), fitted(), decoded(), of_jpeg()):
    tensors.update({name: np.ascontiguousarray(value) for name, value in part})
save_file(tensors, folder / "golden.safetensors")
print(len(tensors), "tensors,", sum(value.nbytes for value in tensors.values()), "bytes")
