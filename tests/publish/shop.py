"""A product with orders, in which the example of docs/transactional-publish.md runs that comes on standard input."""

import json
import sys
from datetime import datetime, timezone

from sqlalchemy import create_engine, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    paid_at: Mapped[datetime | None]


engine = create_engine(sys.argv[1])
exec(sys.stdin.read())
print(event)
