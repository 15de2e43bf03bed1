# One image for every Airflow component and for Spark's master and workers.
FROM python:3.12-slim-bookworm

RUN apt-get update \
    && apt-get install -y --no-install-recommends curl openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && pip install --no-cache-dir "uv>=0.9,<1" \
    && useradd --create-home --uid 50000 airflow

ENV AIRFLOW_HOME=/opt/airflow \
    AIRFLOW__CORE__DAGS_FOLDER=/opt/dredge/dags \
    PATH=/opt/dredge/.venv/bin:$PATH \
    UV_LINK_MODE=copy
WORKDIR /opt/dredge

COPY pyproject.toml uv.lock .python-version README.md LICENSE ./
RUN uv sync --frozen --no-default-groups --extra airflow --extra icechunk --extra kv --no-install-project
COPY dredge dredge
COPY lakefs_embedded lakefs_embedded
COPY airflow_dredge airflow_dredge
COPY operators operators
COPY spark_jobs spark_jobs
COPY plugins plugins
COPY dags dags
RUN uv sync --frozen --no-default-groups --extra airflow --extra icechunk --extra kv --no-editable && mkdir -p /opt/airflow && chown -R airflow /opt/airflow /opt/dredge

USER airflow
CMD ["airflow", "api-server"]
