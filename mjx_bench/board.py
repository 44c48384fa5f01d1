"""One picture of a filmed pair at one step: both arms side by side, with what is happening written on it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mjx_bench.film import ArmFootage, Footage
from mjx_bench.types import Arm, Verdict

# Pixels. The large camera's pictures are shown as rendered, the small one's a third of that.
LARGE, SMALL = 384, 128
_PAD, _HEAD, _TITLE, _TIMELINE = 12, 52, 30, 86
_CONTROLS = 44  # left free below: browsers lay a film's controls over it
WIDTH = 2 * LARGE + 3 * _PAD  # of two arms
HEIGHT = _HEAD + _TITLE + LARGE + _PAD + SMALL + _PAD + _TIMELINE + _CONTROLS  # even, as H.264 needs

_BACKGROUND, _PANEL, _TEXT, _DIM = "#14171c", "#20252d", "#eef1f5", "#9aa4b2"
_COLOUR = {Arm.BASE: "#56b4e9", Arm.DYNAMIC: "#f0a030"}  # after Okabe and Ito: told apart by the colour-blind
_EVENT, _GOOD, _BAD = "#ffdd55", "#4fd08a", "#ff7a7a"

_HEADING, _SMALL_HEADING, _LINE = 16, 12, 16  # points of what is told, and of what takes several lines; of a line

_TOLD = 30  # pixels from the top, of what is told where that is one line

# Steps that the event is announced for, at least: half a second at LIBERO's 20 Hz.
_ANNOUNCED = 10

Pictures = Mapping[Arm, Mapping[str, np.ndarray]]


class Board:
    """Draws the frames of one pair, or of the one arm of an evaluation's case.

    Args:
      footage: the pair.
      cameras: the large one, and the small one if there are two.

    Attributes:
      width: pixels of a frame; a column an arm.
      height: pixels; `HEIGHT`, and more where what the policy is told takes more than a line.
    """

    def __init__(self, footage: Footage, cameras: tuple[str, ...]) -> None:
        self._footage = footage
        self._cameras = cameras
        self.width = _PAD + len(footage.arms) * (LARGE + _PAD)
        self._fonts: dict[tuple[int, bool], Any] = {}
        self._told, self._size = self._wrapped(footage.task.instruction_of(footage.case.init_state_index))
        self._more = _LINE * (len(self._told) - 1)
        self.height = HEIGHT + self._more
        self._plain = self._background()
        self._head = self._headed() if self._more else None

    def draw(self, step: int, pictures: Pictures) -> Image.Image:
        """The frame after `step` policy steps.

        Args:
          step: 0 to the longer arm's end.
          pictures: of each arm from each camera, uint8 [height, width, 3].

        Returns:
          RGB, `height` by `width`.
        """
        canvas = self._plain.copy()
        draw = ImageDraw.Draw(canvas)
        for i, arm in enumerate(self._footage.arms):
            x = _PAD + i * (LARGE + _PAD)
            self._arm(canvas, draw, arm, step, x, pictures[arm])
        self._cursor(draw, step)
        if self._head is None:
            return canvas
        whole = self._head.copy()
        whole.paste(canvas.crop((0, _TOLD, self.width, HEIGHT)), (0, _TOLD + self._more))
        return whole

    def _background(self) -> Image.Image:
        """Everything that stays: the heading and the timeline."""
        f = self._footage
        canvas = Image.new("RGB", (self.width, HEIGHT), _BACKGROUND)
        draw = ImageDraw.Draw(canvas)
        case = f.case
        room = self.width - 2 * _PAD
        if not self._more:
            self._text(draw, (_PAD, 9), self._told[0], self._size, bold=True, width=room)
        where = f"{case.task_suite_name} {case.task_index}, initial state {case.init_state_index}"
        if Arm.DYNAMIC in f.arms:
            where = f.arms[Arm.DYNAMIC].record.change_type.replace("_", " ") + f" · {where}"
        self._text(draw, (_PAD, 31), f"{where} · {f.policy}", 13, _DIM, width=room)
        for arm in f.arms:
            self._row(draw, arm, _ROWS[arm])
        if f.event_step is not None:
            # The cursor's time stands below the rows, so the event's name stands above them.
            self._text(draw, (self._x(f.event_step), min(_ROWS.values()) - 20), "event", 12, _EVENT, anchor="mm")
        return canvas

    def _headed(self) -> Image.Image:
        """A frame with all lines of what the policy is told, and nothing below them yet."""
        whole = Image.new("RGB", (self.width, self.height), _BACKGROUND)
        draw = ImageDraw.Draw(whole)
        for i, line in enumerate(self._told):
            self._text(draw, (_PAD, 9 + _LINE * i), line, self._size, bold=True)
        return whole

    def _wrapped(self, text: str) -> tuple[list[str], int]:
        """A heading, and the size of its letters: one line of large ones where that has room, else what small ones take."""
        measure, room = ImageDraw.Draw(Image.new("RGB", (1, 1))).textlength, self.width - 2 * _PAD
        text = " ".join(text.split())
        if measure(text, self._font(_HEADING, True)) <= room:
            return [text], _HEADING
        lines, font = [""], self._font(_SMALL_HEADING, True)
        for word in text.split():
            longer = f"{lines[-1]} {word}".lstrip()
            if lines[-1] and measure(longer, font) > room:
                lines.append(word)
            else:
                lines[-1] = longer
        return lines, _SMALL_HEADING

    def _arm(
        self,
        canvas: Image.Image,
        draw: ImageDraw.ImageDraw,
        arm: Arm,
        step: int,
        x: int,
        images: Mapping[str, np.ndarray],
    ) -> None:
        """One arm's column, `LARGE` wide from `x` on."""
        footage, y = self._footage.arms[arm], _HEAD
        ended = step >= footage.end
        name = {Arm.BASE: "Base", Arm.DYNAMIC: "Dynamic"}[arm]
        self._text(draw, (x, y + 4), name, 17, _COLOUR[arm], bold=True)
        at = f"step {min(step, footage.end)} of {footage.end}"
        self._text(draw, (x + LARGE, y + 6), at, 14, _DIM, anchor="ra")
        y += _TITLE
        canvas.paste(_sized(images[self._cameras[0]], LARGE), (x, y))
        if arm is Arm.DYNAMIC and self._stale(step) is not None:
            draw.rectangle((x, y, x + LARGE - 1, y + LARGE - 1), outline=_EVENT, width=4)
        if ended:
            self._verdict(draw, footage, x, y + LARGE)
        y += LARGE + _PAD
        left = x
        if len(self._cameras) > 1:
            canvas.paste(_sized(images[self._cameras[1]], SMALL), (x, y))
            left += SMALL + _PAD
        draw.rectangle((left, y, x + LARGE - 1, y + SMALL - 1), fill=_PANEL)
        for i, (line, colour, bold) in enumerate(self._lines(arm, step)):
            self._text(draw, (left + 10, y + 10 + 22 * i), line, 14, colour, bold=bold, width=x + LARGE - left - 20)

    def _lines(self, arm: Arm, step: int) -> list[tuple[str, str, bool]]:
        """What is going on, as (text, colour, bold)."""
        f, event = self._footage, self._footage.event_step
        record, queries = f.arms[arm].record, f.arms[arm].query_steps
        asked = sum(s <= min(step, f.arms[arm].end) for s in queries)
        now = step in queries and step <= f.arms[arm].end
        lines = [(f"query {asked}" + (" now" if now else ""), _TEXT if now else _DIM, now)]
        if Arm.DYNAMIC not in f.arms:
            return lines
        if event is None:
            return [*lines, ("the event's trigger never held", _DIM, False)]
        if arm is Arm.BASE:
            return [*lines, ("nothing changes in this arm", _DIM, False)]
        if step < event:
            return [*lines, (f"event at step {event}", _DIM, False)]
        lines.append((f"event at step {event}", _EVENT, step < event + _ANNOUNCED))
        lines.append((describe_event(record.event or {"operation": "none"}), _EVENT, False))
        response = record.first_response_step
        if response is None:
            lines.append(("not asked again after it", _BAD, True))
        elif (stale := self._stale(step)) is not None:
            lines.append((f"{stale} of {response - event} stale actions", _EVENT, True))
        else:
            lines.append((f"asked again at step {response}", _TEXT, step == response))
            lines.append((f"after {response - event} stale action{'s' * (response - event != 1)}", _DIM, False))
        return lines

    def _stale(self, step: int) -> int | None:
        """How many actions chosen before the event have been executed after it, while more are to come."""
        f, event = self._footage, self._footage.event_step
        if event is None:
            return None
        response = f.arms[Arm.DYNAMIC].record.first_response_step
        until = f.arms[Arm.DYNAMIC].end if response is None else response
        return step - event if event <= step < until else None

    def _verdict(self, draw: ImageDraw.ImageDraw, arm: ArmFootage, x: int, bottom: int) -> None:
        record = arm.record
        good = record.verdict == Verdict.SUCCESS
        words = f"{record.verdict.upper()} " + (f"at step {record.success_step}" if good else f"after {arm.end} steps")
        draw.rectangle((x, bottom - 40, x + LARGE - 1, bottom - 1), fill=_GOOD if good else _BAD)
        self._text(draw, (x + LARGE // 2, bottom - 20), words, 19, "#101418", bold=True, anchor="mm")

    def _row(self, draw: ImageDraw.ImageDraw, arm: Arm, y: int) -> None:
        """An arm's line of the timeline: its length, its queries, the event and the stale actions after it."""
        f = self._footage.arms[arm]
        name = {Arm.BASE: "Base", Arm.DYNAMIC: "Dynamic"}[arm]
        self._text(draw, (_PAD, y), name, 13, _COLOUR[arm], anchor="lm")
        draw.line((self._x(0), y, self._x(f.end), y), fill=_COLOUR[arm], width=4)
        event = self._footage.event_step
        if arm is Arm.DYNAMIC and event is not None:
            response = f.record.first_response_step
            draw.rectangle(
                (self._x(event), y - 6, self._x(f.end if response is None else response), y + 6), fill=_EVENT
            )
        for step in f.query_steps:
            draw.line((self._x(step), y - 5, self._x(step), y + 5), fill=_TEXT, width=1)
        good = f.record.verdict == Verdict.SUCCESS
        end = self._x(f.end)
        draw.rectangle((end - 4, y - 7, end + 4, y + 7), fill=_GOOD if good else _BAD)
        if event is not None:
            draw.line((self._x(event), y - 9, self._x(event), y + 9), fill=_EVENT, width=2)

    def _cursor(self, draw: ImageDraw.ImageDraw, step: int) -> None:
        top, bottom = min(_ROWS.values()) - 14, max(_ROWS.values()) + 14
        x = self._x(step)
        draw.line((x, top, x, bottom), fill=_TEXT, width=2)
        seconds = f"{step / self._footage.task.control_hz:.1f} s"
        right = x + 80 > self.width
        self._text(draw, (x - 5 if right else x + 5, bottom), seconds, 12, _DIM, anchor="rm" if right else "lm")

    def _x(self, step: int) -> int:
        left, right = _PAD + 72, self.width - _PAD - 8
        return round(left + (right - left) * step / max(1, self._footage.end))

    def _text(
        self,
        draw: ImageDraw.ImageDraw,
        at: tuple[int, int],
        text: str,
        size: int,
        colour: str = _TEXT,
        *,
        bold: bool = False,
        anchor: str = "la",
        width: int | None = None,
    ) -> None:
        """Writes one line, cut off with an ellipsis where it would be wider than `width`."""
        font = self._font(size, bold)
        text = " ".join(text.split())
        if width is not None and draw.textlength(text, font) > width:
            while text and draw.textlength(text + "…", font) > width:
                text = text[:-1]
            text = text.rstrip() + "…"
        draw.text(at, text, colour, font, anchor=anchor)

    def _font(self, size: int, bold: bool) -> Any:
        key = size, bold
        if key not in self._fonts:
            import matplotlib  # ships the font, wherever this runs

            folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
            self._fonts[key] = ImageFont.truetype(str(folder / f"DejaVuSans{'-Bold' if bold else ''}.ttf"), size)
        return self._fonts[key]


_ROWS = {Arm.BASE: HEIGHT - _CONTROLS - _TIMELINE + 28, Arm.DYNAMIC: HEIGHT - _CONTROLS - _TIMELINE + 52}


def _sized(image: np.ndarray, size: int) -> Image.Image:
    picture = Image.fromarray(image)
    return picture if picture.size == (size, size) else picture.resize((size, size), Image.Resampling.BOX)


def describe_event(event: Mapping[str, Any]) -> str:
    """What a recorded event did, in a few words."""
    moved: Sequence[Mapping[str, Any]] = event.get("moved", ())
    visual: Mapping[str, Any] = event.get("visual", {})
    operation = str(event["operation"])
    if operation in ("insert_obstacle", "insert_distractors"):
        return f"{_plain(moved[0]['entity'])} appears" if len(moved) == 1 else f"{len(moved)} objects appear"
    if operation == "remove_object":
        return f"{_plain(moved[0]['entity'])} is gone"
    if operation == "move_object":
        one = moved[0]
        distance = float(np.linalg.norm(np.subtract(one["after"], one["before"])))
        return f"{_plain(one['entity'])} moves {100 * distance:.0f} cm"
    if operation == "set_lighting":
        return f"light × {visual.get('scale', 0.0):g}"
    if operation == "shift_camera":
        return f"camera {visual['camera']} shifts"
    if operation == "set_visual_theme":
        return "colours change"
    if operation == "set_sensor_corruption":
        return f"noise {visual['noise_std']:g}, {visual['occlusion_fraction']:.0%} covered"
    return "nothing changes" if operation == "none" else _plain(operation)


def _plain(name: str) -> str:
    """A name without the number that tells two things of a kind apart."""
    return re.sub(r"_\d+$", "", name).replace("_", " ")
