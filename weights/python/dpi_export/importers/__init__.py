"""Importers: a trained model -> a bundle. By hand for FuxiCTR and DeepCTR-Torch, by tracing (../trace) for all others."""
