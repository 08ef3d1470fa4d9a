# Serves the pages and the REST API. Build: docker build -t judge-eval .
# Run: docker run --user "$(id -u):$(id -g)" --read-only --tmpfs /tmp -v "$PWD/runs:/runs" -e JUDGE_EVAL_SERVER_TOKEN=... -p 8642:8642 judge-eval
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY judge_eval judge_eval
COPY prompts prompts
RUN python -m venv /app && /app/bin/pip install --no-cache-dir ".[cost,mcp,server]"

FROM python:3.13-slim
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin judge \
    && mkdir /runs && chown judge /runs
COPY --from=build /app /app
ENV PATH=/app/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    JUDGE_EVAL_OUT=/runs \
    JUDGE_EVAL_CACHE=/runs/.cache \
    JUDGE_EVAL_HOST=0.0.0.0
USER 10001
WORKDIR /runs
VOLUME /runs
EXPOSE 8642
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8642/api/v1/health', timeout=4)"]
ENTRYPOINT ["judge-eval"]
CMD ["serve"]
