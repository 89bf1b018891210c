"""Two revisions side by side: both built, measured in pairs, judged, and the layer named that is to blame."""
