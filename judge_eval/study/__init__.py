"""The judge against people: labels matched, agreement, correction, calibration, samples, cascade files."""
