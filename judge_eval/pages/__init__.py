"""What people look at: reports, served pages, fragments in notebooks."""
