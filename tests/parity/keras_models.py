"""Trains a Wide & Deep, a DeepFM and a model with attention over a history in Keras, and writes them by tf2onnx: NAME.onnx and NAME.npz
with 64 rows and Keras's own scores. Runs in the environment that keras_onnx.sh makes.

  python keras_models.py FOLDER
"""

import pathlib
import sys

import numpy as np
import onnx
import tensorflow as tf
import tf2onnx

keras, layers = tf.keras, tf.keras.layers
SIZES, DENSE, T, ITEMS = {"user": 40, "city": 9, "device": 4}, 5, 6, 30


def rows(rng, n):
    """Columns and a label that depends on them."""
    out = {name: rng.integers(0, size, (n, 1)).astype(np.int32) for name, size in SIZES.items()}
    out["amount"] = rng.normal(size=(n, DENSE)).astype(np.float32)
    out["item"] = rng.integers(1, ITEMS, (n, 1)).astype(np.int32)
    out["history"] = rng.integers(1, ITEMS, (n, T)).astype(np.int32)
    for row, length in zip(out["history"], rng.integers(0, T + 1, n)):
        row[length:] = 0
    score = out["amount"][:, 0] + (out["user"][:, 0] % 3) - 1 + (out["item"][:, 0] == out["history"][:, 0])
    return out, (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.float32)


def _inputs(*names):
    dims = {"amount": (DENSE,), "history": (T,)}
    return {name: keras.Input(dims.get(name, (1,)), dtype="float32" if name == "amount" else "int32", name=name) for name in names}


def wide_deep():
    """Tables of one number beside a tower with batch norm, PReLU and dropout."""
    given = _inputs(*SIZES, "amount")
    flat = [layers.Flatten()(layers.Embedding(size, 4)(given[name])) for name, size in SIZES.items()]
    wide = [layers.Flatten()(layers.Embedding(size, 1)(given[name])) for name, size in SIZES.items()]
    x = layers.Concatenate()([*flat, layers.BatchNormalization()(given["amount"])])
    for width in (16, 8):
        x = layers.Dropout(0.1)(layers.PReLU()(layers.BatchNormalization()(layers.Dense(width)(x))))
    logit = layers.Add()([*wide, layers.Dense(1)(x), layers.Dense(1, use_bias=False)(given["amount"])])
    return keras.Model(given, layers.Activation("sigmoid", name="ctr")(logit))


class Pairs(layers.Layer):
    """The factorization machine of fields [B, F, D]."""

    def call(self, fields):
        return 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(fields, 1)) - tf.reduce_sum(tf.square(fields), 1), 1, keepdims=True)


def deepfm():
    """Fields in a row, their pairs, a tower with ReLU."""
    given = _inputs(*SIZES, "amount")
    fields = layers.Concatenate(axis=1)([layers.Embedding(size, 4)(given[name]) for name, size in SIZES.items()])
    first = layers.Add()([layers.Flatten()(layers.Embedding(size, 1)(given[name])) for name, size in SIZES.items()])
    deep = layers.Concatenate()([layers.Flatten()(fields), given["amount"]])
    for width in (16, 8):
        deep = layers.Dense(width, activation="relu")(deep)
    return keras.Model(given, layers.Activation("sigmoid", name="ctr")(layers.Add()([first, Pairs()(fields), layers.Dense(1)(deep)])))


class TargetAttention(layers.Layer):
    """Shares of the history by the item, padding masked, then LayerNormalization and GELU."""

    def __init__(self):
        super().__init__()
        self.table, self.hidden, self.score = layers.Embedding(ITEMS, 4), layers.Dense(8, activation="sigmoid"), layers.Dense(1)
        self.norm = layers.LayerNormalization()

    def call(self, item, history):
        q, k = self.table(item), self.table(history)
        wide = tf.tile(q, [1, T, 1])
        score = tf.squeeze(self.score(self.hidden(tf.concat([wide, k, wide - k, wide * k], -1))), -1)
        score = tf.where(tf.equal(history, 0), -1e9 * tf.ones_like(score), score)
        pooled = tf.matmul(tf.nn.softmax(score)[:, None, :], k)[:, 0]
        mask = tf.cast(tf.not_equal(history, 0), tf.float32)[..., None]
        mean = tf.reduce_sum(k * mask, 1) / (tf.reduce_sum(mask, 1) + 1e-8)
        return tf.nn.gelu(self.norm(tf.concat([q[:, 0], pooled, mean], -1)))


def attention():
    """DIN in Keras."""
    given = _inputs("item", "history", "amount")
    x = layers.Concatenate()([TargetAttention()(given["item"], given["history"]), given["amount"]])
    return keras.Model(given, layers.Dense(1, activation="sigmoid", name="ctr")(layers.Dense(8, activation="elu")(x)))


def main(folder):
    """Trains and writes the models."""
    for make in (wide_deep, deepfm, attention):
        for opset in (11, 13, 17):
            keras.utils.set_random_seed(opset)
            model, rng = make(), np.random.default_rng(opset)
            given, label = rows(rng, 2000)
            names = list(model.input)
            model.compile("adam", "binary_crossentropy")
            model.fit({name: given[name] for name in names}, label, batch_size=100, epochs=3, verbose=0)
            held = {name: given[name][:64] for name in names}
            signature = [tf.TensorSpec((None, *model.input[name].shape[1:]), model.input[name].dtype, name=name) for name in names]
            function = tf.function(lambda *tensors, m=model, n=names: m(dict(zip(n, tensors)), training=False))
            proto, _ = tf2onnx.convert.from_function(function, signature, opset=opset)
            onnx.save(proto, folder / f"{make.__name__}_{opset}.onnx")
            np.savez(folder / f"{make.__name__}_{opset}.npz", scores=model.predict(held, verbose=0), **held)
            print(f"{make.__name__}, opset {opset}: {len(proto.graph.node)} nodes", flush=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
