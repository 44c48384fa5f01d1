"""Run by a Python that has the real LeRobot: `read FOLDER OUT` and `write FOLDER OUT`. Nothing of ours is imported here.

`read` opens a dataset and puts every key of every frame into OUT (.npz); `write` makes a dataset with LeRobot's own writer
and puts into OUT what went in.
"""

import inspect
import sys

import numpy as np

FPS, SIDE, LENGTHS = 20, 64, (9, 14)
CAMERA = "observation.images.front"


def read(folder: str, out: str) -> None:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    dataset = LeRobotDataset("local/made", root=folder, video_backend="pyav")
    frames = [dataset[i] for i in range(len(dataset))]
    arrays = {}
    for name in frames[0]:
        values = [frame[name] for frame in frames]
        arrays[name] = np.array(values) if isinstance(values[0], str) else np.stack([v.numpy() for v in values])
    stats = {f"stats/{n}/{k}": np.asarray(v) for n, own in dataset.meta.stats.items() for k, v in own.items()}
    np.savez(out, **arrays, **stats, episodes=np.array(dataset.num_episodes), fps=np.array(dataset.fps))


def write(folder: str, out: str) -> None:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    features = {
        "observation.state": {"dtype": "float32", "shape": (3,), "names": ["a", "b", "c"]},
        "action": {"dtype": "float32", "shape": (2,), "names": ["x", "y"]},
        CAMERA: {"dtype": "video", "shape": (SIDE, SIDE, 3), "names": ["height", "width", "channels"]},
    }
    dataset = LeRobotDataset.create("local/theirs", fps=FPS, features=features, root=folder, robot_type="panda")
    rng = np.random.default_rng(0)
    kept: dict[str, list] = {"observation.state": [], "action": [], CAMERA: []}
    as_argument = "task" in inspect.signature(dataset.add_frame).parameters
    for episode, length in enumerate(LENGTHS):
        for k in range(length):
            picture = np.full((SIDE, SIDE, 3), 60, np.uint8)
            picture[:, 4 * k : 4 * k + 8] = (200, 120, 40 + 80 * episode)
            frame = {
                "observation.state": rng.normal(size=3).astype(np.float32),
                "action": rng.uniform(-1, 1, 2).astype(np.float32),
                CAMERA: picture,
            }
            for name, value in frame.items():
                kept[name].append(value)
            task = f"task {episode}"
            if as_argument:
                dataset.add_frame(frame, task=task)
            else:
                dataset.add_frame({**frame, "task": task})
        dataset.save_episode()
    if hasattr(dataset, "finalize"):
        dataset.finalize()
    np.savez(out, **{name: np.stack(values) for name, values in kept.items()})


if __name__ == "__main__":
    {"read": read, "write": write}[sys.argv[1]](*sys.argv[2:])
