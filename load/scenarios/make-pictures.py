"""Makes the pictures of the scenarios `quota-image` and `image-cached`: a logo, and what has the statistics of a photograph.

    python3 load/scenarios/make-pictures.py        (numpy and Pillow)

The logo, 2000 x 2000 pixels with alpha: discs, a ring, letters and a soft shadow. The photograph, 4000 x 3000 pixels: noise with a spectrum of
1/f, as photographs of scenes have it, over gradients, hard edges and letters. Both are committed: this shows where they are from.
"""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

HERE = Path(__file__).parent
SEED = 46


def logo(side: int = 2000) -> Image.Image:
    """Drawn at twice the size, so that its edges are smooth."""
    big = 2 * side
    picture = Image.new("RGBA", (big, big), (0, 0, 0, 0))
    shadow = Image.new("L", (big, big), 0)
    ImageDraw.Draw(shadow).ellipse((0.14 * big, 0.16 * big, 0.90 * big, 0.92 * big), fill=110)
    shadow = shadow.resize((side // 4, side // 4)).filter(ImageFilter.GaussianBlur(side / 200)).resize((big, big))
    picture.paste((10, 20, 40, 255), mask=shadow)
    draw = ImageDraw.Draw(picture)
    draw.ellipse((0.10 * big, 0.10 * big, 0.86 * big, 0.86 * big), fill=(24, 92, 166, 255))
    draw.ellipse((0.16 * big, 0.16 * big, 0.80 * big, 0.80 * big), fill=(245, 247, 250, 255))
    for number, colour in enumerate([(214, 64, 69), (240, 160, 48), (52, 152, 96), (24, 92, 166)]):
        top = (0.30 + 0.10 * number) * big
        draw.rounded_rectangle((0.26 * big, top, (0.70 - 0.05 * number) * big, top + 0.07 * big), radius=0.03 * big, fill=(*colour, 255))
    draw.text((0.24 * big, 0.86 * big), "STRATA", font=ImageFont.load_default(0.11 * big), fill=(24, 40, 66, 255))
    return picture.resize((side, side), Image.Resampling.BOX)


def photograph(width: int = 4000, height: int = 3000) -> Image.Image:
    """Noise of which the amplitude is one over the frequency, coloured, over what has edges."""
    random = np.random.default_rng(SEED)
    y, x = np.mgrid[0:height, 0:width] / [[[height]], [[width]]]
    frequency = np.hypot(np.fft.fftfreq(height)[:, None] * height, np.fft.rfftfreq(width)[None, :] * width)
    frequency[0, 0] = 1.0

    def noise() -> np.ndarray:
        spectrum = np.fft.rfft2(random.standard_normal((height, width))) / frequency
        spectrum[0, 0] = 0.0
        values = np.fft.irfft2(spectrum, (height, width))
        return values / values.std()

    light, warmth = noise(), noise()
    sky = y < 0.42 + 0.05 * np.sin(9 * x) + 0.02 * light
    base = np.where(sky, 190 - 60 * y + 14 * light, 95 + 50 * x + 34 * light)
    colours = np.stack([base + 9 * warmth + 12 * ~sky, base + 4 * warmth, base - 12 * warmth + 26 * sky], axis=-1)
    colours += random.standard_normal(colours.shape) * 1.1
    picture = Image.fromarray(np.clip(colours, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(picture)
    for number in range(9):
        left = (0.06 + 0.1 * number) * width
        draw.rectangle((left, (0.60 - 0.03 * (number % 3)) * height, left + 0.06 * width, 0.86 * height), fill=(40 + 18 * number, 44, 60))
        draw.text((left + 0.008 * width, 0.68 * height), f"No {number}", font=ImageFont.load_default(0.018 * width), fill=(236, 230, 210))
    return picture


logo().save(HERE / "logo-2000.png", optimize=True)
photograph().save(HERE / "photograph-12mp.jpg", quality=75, subsampling="4:2:0")
