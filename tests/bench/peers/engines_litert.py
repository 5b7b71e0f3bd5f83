"""LiteRT (once TensorFlow Lite) with XNNPACK: the model is written by TensorFlow's converter. Needs tensorflow and ai-edge-litert."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import shapes  # noqa: E402
import tensorflow as tf  # noqa: E402
from ai_edge_litert.interpreter import Interpreter  # noqa: E402


def forward(model, weights):
    w = {name: tf.constant(array) for name, array in weights.items()}
    hidden, crosses = shapes.layers(model, weights)
    n, fields = len(weights["offsets"]) * shapes.DIM, len(weights["offsets"])

    def run(ids):
        rows = ids + w["offsets"]
        x0 = tf.reshape(tf.gather(w["table"], rows), [-1, n])
        h = x = x0
        for i in range(hidden):
            h = tf.nn.relu(tf.matmul(h, w[f"w{i}"]) + w[f"b{i}"])
        for i in range(crosses):
            product = tf.matmul(x, w[f"cross_w{i}"])
            x = x0 * product + w[f"cross_b{i}"] + x if model == "dcn" else x0 * (product + w[f"cross_b{i}"]) + x
        logit = (tf.matmul(tf.concat([x, h], 1) if crosses else h, w["out_w"]) + w["out_b"])[:, 0]
        if "linear" in w:
            logit += tf.reduce_sum(tf.gather(w["linear"], rows), 1)
        if model == "deepfm":
            e = tf.reshape(x0, [-1, fields, shapes.DIM])
            logit += 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(e, 1)) - tf.reduce_sum(tf.square(e), 1), 1)
        return tf.sigmoid(logit)
    return run


class Engine:
    def __init__(self, model, weights, threads, batch):
        signature = tf.TensorSpec([batch, len(weights["offsets"])], tf.int64)
        function = tf.function(forward(model, weights), input_signature=[signature])
        converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()])
        self.run = Interpreter(model_content=converter.convert(), num_threads=threads)
        self.run.allocate_tensors()
        self.ids = self.run.get_input_details()[0]["index"]
        self.scores = self.run.get_output_details()[0]["index"]

    def calls(self, sets):
        def call(i):
            self.run.set_tensor(self.ids, sets[i % len(sets)])
            self.run.invoke()
            return self.run.get_tensor(self.scores)
        return call
