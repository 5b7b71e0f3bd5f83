"""Raw values -> ids and floats: the steps of an encoder, and encoders made of fitted scikit-learn and FuxiCTR objects."""
