"""Who answers a request: servers, fakes, cassettes and the cache, stacked around each other."""
