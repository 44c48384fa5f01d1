"""A filmed pair as a recording for the rerun viewer: cameras, hand, objects, contacts and a log of both arms, over time."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import mujoco
import numpy as np
from PIL import Image

from mjx_bench import board
from mjx_bench.errors import MissingExtra
from mjx_bench.film import ArmFootage, Footage
from mjx_bench.observe.base import Renderer
from mjx_bench.observe.lane_model import LaneModel
from mjx_bench.observe.pictures import Pictures
from mjx_bench.physics.base import Pose
from mjx_bench.types import Arm
from mjx_bench.video import shoot, whole_file

STEP, SECONDS = "policy_step", "episode_time"  # timelines

# sRGB: the arms as in films, contacts of the fingers, other contacts.
_ARMS = {Arm.BASE: (86, 180, 233), Arm.DYNAMIC: (240, 160, 48)}
_GRASP, _TOUCH = (255, 90, 90), (170, 170, 170)
_JPEG_QUALITY = 90


def load_rerun() -> ModuleType:
    """The rerun package.

    Raises:
      MissingExtra: it is not installed.
    """
    try:
        import rerun
    except ImportError:
        raise MissingExtra("recordings for the rerun viewer need rerun-sdk: pip install -e '.[rerun]'") from None
    return rerun


def export_rerun(footage: Footage, renderer: Renderer, path: Path) -> Path:
    """Writes the recording of a pair.

    Both arms hang below their names: `camera/NAME` (pictures, and where the camera is), `hand` and `hand/path`, `objects`,
    `contacts` (places where geoms touch, by the names of their bodies) and `log` (queries, event, end). Times are
    `policy_step` and `episode_time`.

    Args:
      footage: the pair.
      renderer: of its scene; all its cameras are shown.
      path: of the .rrd file.

    Raises:
      MissingExtra: rerun is not installed.
      BenchError: the file cannot be written.
    """
    rr = load_rerun()
    name = f"{footage.policy} {footage.case.case_id}"
    stream = rr.RecordingStream("mjx-bench", recording_id=hashlib.sha256(name.encode()).hexdigest()[:32])
    stream.set_log_time_enabled(False)  # when it was written says nothing
    with whole_file(path) as part:
        stream.save(part, default_blueprint=_layout(rr, renderer.cameras, footage.arms))
        try:
            _Recorder(rr, stream, footage, renderer).record()
        finally:
            stream.disconnect()  # writes what is left
    return path


class _Recorder:
    def __init__(self, rr: Any, stream: Any, footage: Footage, renderer: Renderer) -> None:
        self._rr = rr
        self._log = stream.log
        self._stream = stream
        self._footage = footage
        self._renderer = renderer
        scene = footage.task.scene
        self._lane = LaneModel(scene, scene.load_spec())  # geometry only; the renderer has the textures
        model = self._lane.model
        self._entities = {n: model.body(e.body).id for n, e in scene.entities.items()}
        self._owners = [_owner(model, self._entities, int(body)) for body in model.geom_bodyid]
        self._fingers = {model.geom(g).id for side in scene.robot.finger_geoms for g in side}

    def record(self) -> None:
        rr, footage = self._rr, self._footage
        self._stream.send_recording_name(footage.case.case_id)
        for arm, filmed in footage.arms.items():
            self._log(str(arm), rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
            path = rr.LineStrips3D([filmed.eef_pos], colors=[_ARMS[arm]], radii=0.002)
            self._log(f"{arm}/hand/path", path, static=True)
        pictures = Pictures(self._renderer, footage.task.scene)
        for step, shown in shoot(footage, pictures, range(footage.end + 1)):
            self._stream.set_time(STEP, sequence=step)
            self._stream.set_time(SECONDS, duration=step / footage.task.control_hz)
            for arm, filmed in footage.arms.items():
                if step <= filmed.end:
                    self._step(arm, filmed, step, shown[arm])

    def _step(self, arm: Arm, filmed: ArmFootage, step: int, images: Mapping[str, np.ndarray]) -> None:
        rr = self._rr
        self._pose(arm, filmed.poses[step])
        for name, image in images.items():
            self._log(f"{arm}/camera/{name}", rr.EncodedImage(contents=_jpeg(image), media_type="image/jpeg"))
        if step:
            hand = rr.Points3D([filmed.eef_pos[step - 1]], colors=[_ARMS[arm]], radii=0.01)
            self._log(f"{arm}/hand", hand)
        for line, level in _lines(self._footage, arm, step):
            self._log(f"{arm}/log", rr.TextLog(line, level=level))

    def _pose(self, arm: Arm, pose: Pose) -> None:
        """Objects, contacts and cameras as they are in a pose."""
        rr, lane = self._rr, self._lane
        looks = lane.show(pose)
        model, data = lane.model, lane.data
        mujoco.mj_collision(model, data)
        places = data.xpos[list(self._entities.values())]
        self._log(f"{arm}/objects", rr.Points3D(places, labels=list(self._entities), radii=0.006, show_labels=False))
        touching = data.contact.dist <= 0.0  # the list also holds what is only near
        contacts = data.contact.geom[touching].tolist()
        self._log(
            f"{arm}/contacts",
            rr.Points3D(
                data.contact.pos[touching],
                labels=[" - ".join(sorted(self._owners[g] for g in pair)) for pair in contacts],
                colors=[_GRASP if self._fingers & set(pair) else _TOUCH for pair in contacts],
                radii=0.004,
                show_labels=False,
            ),
        )
        for name in self._renderer.cameras:
            camera = model.camera(name).id
            at = f"{arm}/camera/{name}"
            rotation = data.cam_xmat[camera].reshape(3, 3)
            self._log(at, rr.Transform3D(translation=data.cam_xpos[camera], mat3x3=rotation))
            self._log(
                at,
                rr.Pinhole(
                    fov_y=np.deg2rad(looks.cam_fovy[camera]),
                    aspect_ratio=self._renderer.width / self._renderer.height,
                    # MuJoCo's cameras look along -z, with y up.
                    camera_xyz=rr.ViewCoordinates.RUB,
                    image_plane_distance=0.2,
                ),
            )


def _owner(model: mujoco.MjModel, entities: Mapping[str, int], body: int) -> str:
    """Name of the entity that a body belongs to, else its own."""
    names = {root: name for name, root in entities.items()}
    at = body
    while at and at not in names:
        at = int(model.body_parentid[at])
    return names.get(at) or str(model.body(body).name)


def _lines(footage: Footage, arm: Arm, step: int) -> list[tuple[str, str]]:
    """(text, level) of what happens at a step."""
    filmed, event = footage.arms[arm], footage.event_step
    record = filmed.record
    lines = []
    if step == event:
        what = (
            "nothing changes here" if arm is Arm.BASE else board.describe_event(record.event or {"operation": "none"})
        )
        lines.append((f"event ({record.change_type}): {what}", "INFO" if arm is Arm.BASE else "WARN"))
    if step in filmed.query_steps:
        answer = arm is Arm.DYNAMIC and step == record.first_response_step
        lines.append((f"query {filmed.query_steps.index(step)}" + (", the first after the event" * answer), "INFO"))
    if step == filmed.end:
        lines.append((f"end: {record.verdict} ({record.reason})", "INFO" if record.success else "ERROR"))
    return lines


def _jpeg(image: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(image).save(out, format="JPEG", quality=_JPEG_QUALITY)
    return out.getvalue()


def _layout(rr: Any, cameras: tuple[str, ...], arms: Iterable[Arm]) -> Any:
    """The arms side by side: the scene, the cameras, the log."""
    from rerun import blueprint as rrb

    columns = [
        rrb.Vertical(
            rrb.Spatial3DView(origin=str(arm), name=arm.title()),
            rrb.Horizontal(*(rrb.Spatial2DView(origin=f"{arm}/camera/{c}", name=c) for c in cameras)),
            rrb.TextLogView(origin=f"{arm}/log", name=f"{arm.title()} log"),
        )
        for arm in arms
    ]
    return rrb.Blueprint(rrb.Horizontal(*columns))
