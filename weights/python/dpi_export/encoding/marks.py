"""The two results of an encoder that are no id and no number."""


class _Marker:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


MISSING, OOV = _Marker("MISSING"), _Marker("OOV")
