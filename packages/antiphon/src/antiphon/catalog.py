"""The catalog of this server: which names it shows, with which metadata profile, and the routes that show them."""

from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from antiphon.access.account import current
from antiphon.config import Settings
from antiphon.model import Model
from antiphon_protocols import models
from antiphon_protocols.profiles import Profile, find_profile, read_profiles
from antiphon_turns.errors import AntiphonError, RequestError, UnknownModel

Refuse = Callable[[Request, AntiphonError], Response]


class Catalog(msgspec.Struct, frozen=True):
    """The served model's card, and one for each alias that is a plain name."""

    model: Model
    cards: tuple[models.ModelCard, ...]

    def find(self, name: str) -> models.ModelCard:
        """The card of a name the model answers to. Raises UnknownModel."""
        for card in self.cards:
            if card.id == name:
                return card
        self.model.check_name(name)
        return alias_card(self.cards[0], name)


def build_catalog(model: Model, settings: Settings, *, created: int) -> Catalog:
    """Raises ConfigError for a profile that does not exist or does not hold."""
    own = models.ModelCard(
        id=model.name,
        created=created,
        context_length=model.context_length,
        reported_length=settings.reported_context_length,
        profile=chosen_profile(settings),
        reasons=model.format.names[1] is not None,
        calls=model.format.names[0] is not None,
    )
    return Catalog(model, (own, *(alias_card(own, name) for name in model.aliases.listed)))


def chosen_profile(settings: Settings) -> Profile:
    """The metadata profile of the settings. Raises ConfigError for one that does not exist or does not hold."""
    return find_profile(read_profiles(settings.profiles), settings.profile)


def alias_card(card: models.ModelCard, name: str) -> models.ModelCard:
    """The same model under another name."""
    return msgspec.structs.replace(card, id=name, display_name=f"{name} ({card.display_name or card.id})")


class CatalogRoutes:
    """`GET /v1/models` and `GET /v1/models/{id}`, for callers of every vendor's SDK and with either kind of key."""

    def __init__(self, catalog: Catalog, refuse: Refuse) -> None:
        self._catalog = catalog
        self._refuse = refuse

    async def list_models(self, request: Request) -> Response:
        """The catalog in the caller's shape: what its key may use."""
        account = current.get()
        cards = [card for card in self._catalog.cards if account is None or account.may_use(card.id)]
        try:
            body = models.list_body(cards, dict(request.headers), dict(request.query_params))
        except RequestError as error:
            return self._refuse(request, error)
        return Response(body, media_type="application/json")

    async def one_model(self, request: Request) -> Response:
        """One model under any name it answers to; ids may hold slashes."""
        account, name = current.get(), request.path_params["model_id"]
        try:
            if account is not None:
                account.check_model(name)
            card = self._catalog.find(name)
        except UnknownModel as error:
            return self._refuse(request, error)
        return Response(models.model_body(card, dict(request.headers)), media_type="application/json")
