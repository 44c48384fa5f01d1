"""The experts' model of the servo: its step, its inverse, and the waypoints that it follows."""

from __future__ import annotations

import numpy as np
import pytest

from policies.scripted.motion import (
    CLOSED,
    KD,
    KP,
    OPEN,
    TURN_TOLERANCE,
    Cursor,
    LinearPlant,
    Motion,
    Waypoint,
    command,
    response,
    rotation,
    rotation_error,
    track,
)

DOWN = np.diag([1.0, -1.0, -1.0])
DT = 0.002
UNCOUPLED = response(np.eye(6), 25, DT)


def plant(pos=(0.0, 0.0, 0.3), rot=DOWN, coupling=None) -> LinearPlant:
    made = UNCOUPLED if coupling is None else response(coupling, 25, DT)
    return LinearPlant(np.array(pos), rot, Motion(np.zeros(3), np.zeros(3), rot), made)


def leaky(seed: int) -> np.ndarray:
    """[6, 6] what an arm makes of decoupled commands: identity blocks, and leaks of up to 20% between them."""
    k = np.eye(6)
    rng = np.random.default_rng(seed)
    k[:3, 3:], k[3:, :3] = rng.uniform(-0.2, 0.2, (2, 3, 3))
    return k


def integrate(coupling, vel, left, spin, goal):
    """One control step, substep by substep: [12] displacement, velocity, rotation left, angular velocity."""
    pos, vel, left, spin = np.zeros(3), vel.copy(), left.copy(), spin.copy()
    for _ in range(25):
        asked = np.concatenate([KP * (goal - pos) - KD * vel, KP * left - KD * spin])
        acceleration = coupling @ asked
        vel += DT * acceleration[:3]
        spin += DT * acceleration[3:]
        pos += DT * vel
        left -= DT * spin
    return np.concatenate([pos, vel, left, spin])


@pytest.mark.parametrize("seed", range(4))
def test_response_is_the_integrated_control_step(seed):
    rng = np.random.default_rng(seed)
    coupling = leaky(seed)
    vel, left, spin, goal = rng.normal(size=(4, 3)) * 0.1
    made = response(coupling, 25, DT)
    got = made.state @ np.concatenate([np.zeros(3), vel, left, spin]) + made.goal @ goal
    np.testing.assert_allclose(got, integrate(coupling, vel, left, spin, goal), atol=1e-12)


def test_response_of_one_axis_is_the_textbook_servo():
    # exp(-w t) (1 + w t) of the way is left of a critically damped step after 50 ms; Euler's error is a few percent.
    w, t = np.sqrt(KP), 0.05
    left = np.exp(-w * t) * (1 + w * t)
    assert UNCOUPLED.goal[0, 0] == pytest.approx(1 - left, rel=0.06)
    assert np.count_nonzero(np.abs(UNCOUPLED.goal[:3] - np.diag(np.diag(UNCOUPLED.goal[:3]))) > 1e-15) == 0


@pytest.mark.parametrize("seed", range(4))
def test_command_inverts_the_response(seed):
    rng = np.random.default_rng(seed)
    p = plant(coupling=leaky(seed))
    p.motion = Motion(rng.normal(size=3) * 0.02, rng.normal(size=3) * 0.02, p.rot)
    goal = p.pos + rng.normal(size=3) * 0.004
    wanted = 10.0 * (goal - p.pos)
    action = command(p, Waypoint("to", goal, p.rot, OPEN))
    assert np.abs(action).max() <= 1.0
    p.step(action)
    np.testing.assert_allclose(p.motion.vel, wanted, atol=1e-12)


@pytest.mark.parametrize("coupling", [None, leaky(7)])
def test_track_goes_straight_and_arrives(coupling):
    p, goal = plant(coupling=coupling), np.array([0.3, -0.2, 0.1])
    start, path = p.pos.copy(), []
    cursor = Cursor()
    steps = [Waypoint("to", goal, DOWN, OPEN, tolerance=0.003)]
    while cursor.index == 0:
        piece = track(p, steps, cursor, 1)
        cursor = piece.cursors[-1]
        assert np.abs(piece.actions).max() <= 1.0
        path.append(p.pos)
        assert len(path) < 60
    along = (goal - start) / np.linalg.norm(goal - start)
    off = np.array(path) - start
    off -= np.outer(off @ along, along)
    assert np.linalg.norm(off, axis=1).max() < 0.004
    assert np.linalg.norm(p.pos - goal) <= 0.003
    assert len(path) >= 0.41 / 0.26 / 0.05  # nothing beats the servo's own top speed


def test_track_turns_and_then_commands_no_rotation():
    p = plant()
    goal = rotation(np.array([0.0, 0.0, np.pi / 2])) @ DOWN
    got = track(p, [Waypoint("turn", p.pos, goal, OPEN, tolerance=0.01)], Cursor(), 30)
    assert np.linalg.norm(rotation_error(goal, p.rot)) < 0.01
    turning = np.flatnonzero(got.actions[:, 3:6].any(1))
    assert turning.max() < 20
    assert not got.actions[20:, 3:6].any(), "only exact zeros keep the held goal"


def test_small_misalignment_is_left_alone():
    p = plant(rot=rotation(np.array([0.0, 0.9 * TURN_TOLERANCE, 0.0])) @ DOWN)
    assert not track(p, [Waypoint("to", p.pos + 0.1, DOWN, OPEN)], Cursor(), 10).actions[:, 3:6].any()


@pytest.mark.parametrize("lean", [0.0, 0.6])
def test_funnel_comes_in_only_over_the_spot(lean: float):
    tilt = rotation(np.array([0.0, lean, 0.0]))
    p = plant(pos=tuple(tilt @ [0.05, 0.02, 0.15]), rot=tilt @ DOWN)
    steps = [Waypoint("reach", np.zeros(3), tilt @ DOWN, OPEN, tolerance=0.003, funnel=True)]
    for _ in range(60):
        track(p, steps, Cursor(), 1)
        aside_aside_up = tilt.T @ p.pos
        if np.hypot(*aside_aside_up[:2]) > 0.012:
            assert aside_aside_up[2] > 0.05
    assert np.linalg.norm(p.pos) < 0.003


def test_a_line_is_returned_to_before_it_is_followed():
    p = plant(pos=(0.0, 0.03, 0.3))
    steps = [Waypoint("push", np.array([0.3, 0.0, 0.3]), DOWN, OPEN, speed=0.15, line=np.array([1.0, 0.0, 0.0]))]
    got = track(p, steps, Cursor(), 16)
    off = np.abs(got.positions[:, 1])
    assert off[8] < 0.004, "what is off the line is not slowed down by the speed along it"
    assert got.positions[8, 0] < 0.08
    speeds = np.diff(got.positions[:, 0]) / 0.05
    assert speeds.max() < 0.155
    assert not got.positions.flags.writeable


def test_drift_is_made_up_for_on_a_line_and_nowhere_else():
    goal, drift = np.array([0.3, 0.0, 0.3]), np.array([0.0, 0.0, 0.02])
    free = Waypoint("push", goal, DOWN, OPEN, speed=0.15)
    line = Waypoint("push", goal, DOWN, OPEN, speed=0.15, line=np.array([1.0, 0.0, 0.0]))
    np.testing.assert_array_equal(command(plant(), free, drift), command(plant(), free))
    p = plant()
    p.step(command(p, line, drift))
    np.testing.assert_allclose(p.motion.vel, [0.15, 0.0, -0.02], atol=1e-12)
    p = plant()
    p.step(command(p, line, 50.0 * drift))
    assert p.motion.vel[2] == pytest.approx(-0.1), "a blow is no drift"


def test_dwell_counts_control_steps_and_patience_ends_them():
    p = plant()
    steps = [
        Waypoint("close", p.pos, DOWN, CLOSED, tolerance=0.01, dwell=5),
        Waypoint("far", p.pos + 9.0, DOWN, OPEN, patience=4),
        Waypoint("end", p.pos, DOWN, OPEN, tolerance=9.0),
    ]
    got = track(p, steps, Cursor(), 16)
    assert [c.index for c in got.cursors] == [0] * 6 + [1] * 5 + [2] + [3] * 5
    assert got.actions[:6, 6].tolist() == [1.0] * 6
    assert got.actions[6:, 6].tolist() == [-1.0] * 10
    assert not got.actions[12:, :6].any(), "after its end a plan holds still"
    assert not got.actions.flags.writeable
    assert got.actions.dtype == np.float32


@pytest.mark.parametrize("axis_angle", [(0, 0, 0), (0.3, -0.2, 0.9), (0, 0, 1e-7), (2.0, 1.0, -0.5)])
def test_rotation_error_undoes_rotation(axis_angle):
    a = np.array(axis_angle, float)
    np.testing.assert_allclose(rotation_error(rotation(a) @ DOWN, DOWN), a, atol=1e-9)
