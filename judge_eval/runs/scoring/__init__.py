"""From outcomes to scores and means."""
